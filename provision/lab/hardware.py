"""The simulated hardware of a lab host: a YAML file, validated, handed to the guest as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from provision.lab.store import LabError

FOLDER = Path(__file__).parent / "hardware"
Slot = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
HexId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}$")]
Kernel = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+-[a-z0-9-]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GpuModel(_Strict):
    """What all GPUs of a host have in common; memory in MiB, power in W, clocks in MHz."""

    name: str
    pci_name: str
    architecture: str
    compute_capability: Annotated[str, Field(pattern=r"^\d+\.\d+$")]
    device: HexId
    subsystem: HexId
    memory_mib: int
    reserved_mib: int
    bar1_mib: int
    power_limit_w: float
    power_min_w: float
    idle_power_w: float
    idle_temperature_c: int
    idle_state: str
    max_sm_clock_mhz: int
    max_memory_clock_mhz: int
    ecc: bool
    mig: bool
    link_gen: int
    idle_link_gen: int
    link_width: int
    vbios: str
    board_part_number: str
    gpu_part_number: str
    open_module_only: bool
    """True: the proprietary module loads but finds no device, as on Blackwell."""


Slowdown = Literal[
    "sw_power_cap",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
]


class Faults(_Strict):
    """What is wrong with a card. Where it says nothing, the card is as its model."""

    absent: bool = False
    """It is not on the bus."""
    silent: bool = False
    """The bus has it, the driver can't reach it."""
    link_width: int | None = None
    link_gen: int | None = None
    """What its slot gives at most."""
    memory_mib: int | None = None
    bar1_mib: int | None = None
    power_limit_w: float | None = None
    ecc_off: bool = False
    ecc_uncorrectable: int = 0
    """Of the DRAM, since the driver was loaded."""
    sram_uncorrectable: int = 0
    """Over the card's life."""
    remap_pending: bool = False
    remap_failure: bool = False
    slowdowns: tuple[Slowdown, ...] = ()
    replays: int = 0
    utilisation: int = 0
    """Percent, without any process."""
    recovery_action: str = "None"
    xids: tuple[int, ...] = ()
    """In the kernel's log, in this order."""


class Gpu(_Strict):
    """One card: where it sits and how it is told apart."""

    slot: Slot
    uuid: Annotated[str, Field(pattern=r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    serial: str
    numa: int
    cpus: str
    switch: str = ""
    """GPUs with the same value sit behind one PCIe switch (PIX)."""
    iommu_group: int
    under: Slot | None = None
    """The bridge that it sits below."""
    faults: Faults = Faults()


class Bridge(_Strict):
    """A PCIe port above GPUs; `acs_redirect` sends traffic between GPUs through the root."""

    slot: Slot
    under: Slot | None = None
    """Another bridge above it."""
    vendor: HexId = "1022"
    device: HexId
    numa: int
    iommu_group: int
    acs_redirect: bool = False


class Kernels(_Strict):
    """`running` is what the first boot shows; later boots take the newest one in /boot."""

    running: Kernel
    installed: tuple[Kernel, ...]
    offered: tuple[Kernel, ...] = ()

    @model_validator(mode="after")
    def _running_is_installed(self) -> Kernels:
        if self.running not in self.installed:
            raise ValueError(f"running kernel {self.running} is not in installed")
        return self


class Hardware(_Strict):
    """Everything that a guest pretends to be made of."""

    kernels: Kernels
    cmdline: str
    nouveau: bool = False
    nova_core: bool = False
    """These two are loaded at boot and hold the GPUs, unless they are blacklisted."""
    secure_boot: Literal["enabled", "disabled", "unsupported"]
    mok_enrolled: bool = False
    """Whether the firmware trusts the key that DKMS signs with; enrolling needs the console."""
    iommu: Literal["identity", "DMA-FQ", "off"]
    nvlink: int = 0
    """Bonded NVLinks between each pair of GPUs; 0 means PCIe only."""
    nvswitch: bool = False
    smi_hangs: bool = False
    """nvidia-smi gives no answer, as on a host with a wedged GPU."""
    model: GpuModel | None = None
    gpus: tuple[Gpu, ...] = ()
    bridges: tuple[Bridge, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Hardware:
        if self.gpus and self.model is None:
            raise ValueError("gpus needs model")
        slots = [gpu.slot for gpu in self.gpus] + [bridge.slot for bridge in self.bridges]
        if len(set(slots)) != len(slots):
            raise ValueError("a slot occurs twice in gpus and bridges")
        if len({gpu.uuid for gpu in self.gpus}) != len(self.gpus):
            raise ValueError("a uuid occurs twice in gpus")
        bridges: list[str | None] = [None]
        for bridge in self.bridges:
            if bridge.under not in bridges:
                raise ValueError(f"{bridge.slot} is under {bridge.under}, no bridge before it")
            bridges.append(bridge.slot)
        for gpu in self.gpus:
            if gpu.under not in bridges:
                raise ValueError(f"{gpu.slot} is under {gpu.under}, which is no bridge")
        return self


def names() -> list[str]:
    """The hardware descriptions there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Hardware:
    """The description `name`; a mistake in it is named by file and field.

    With `based_on: OTHER` it says only what differs from another description.
    """
    data = _read(name)
    if isinstance(data, dict) and "based_on" in data:
        other = _read(str(data.pop("based_on")))
        data = {**(other if isinstance(other, dict) else {}), **data}
    try:
        return Hardware.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise LabError(f"{name}.yaml: {field}: {first['msg']}") from error


def _read(name: str) -> object:
    if name not in names():
        raise LabError(f"no hardware description {name!r}", hint=f"there are: {', '.join(names())}")
    try:
        return yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise LabError(f"{name}.yaml is no YAML: {error}") from error


def every_kernel() -> list[str]:
    """All kernels of all descriptions: the repository offers headers for each."""
    found: set[str] = set()
    for name in names():
        kernels = load(name).kernels
        found.update(kernels.installed, kernels.offered)
    return sorted(found)
