"""Driver, toolkits and GPUs."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from provision.facts.kinds import Float, Int


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    version: str
    license: str
    """'Dual MIT/GPL' is the open flavour, 'NVIDIA' the proprietary one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    loaded: dict[str, str | None]
    """Module of interest → its version ('' where it states none), None when not loaded."""
    available: dict[str, Module | None]
    """Installed kernel → its nvidia module on disk."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Nvml:
    exit: Int
    """nvidia-smi's exit status: 0 fine, 9 no module, 18 module and library differ."""
    message: str
    driver: str | None
    cuda: str | None
    """The newest CUDA that the driver runs, such as '13.1': what nvidia-smi's table shows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Driver:
    loaded: str | None
    """Version of the module in the kernel."""
    flavour: Literal["open", "proprietary"] | None
    library: str | None
    """Version of libnvidia-ml that the loader would take."""
    smi: bool
    """nvidia-smi is there."""
    runfile: str | None
    """Uninstaller of a driver that a .run file put beside the packages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    index: Int
    minor: Int | None
    """Number of its device file, /dev/nvidiaN."""
    uuid: str
    name: str
    slot: str
    """PCI address such as 0000:06:00.0."""
    memory_total: Int | None
    """MiB, as nvidia-smi prints it."""
    memory_used: Int | None
    bar1_total: Int | None
    power_limit: Float | None
    """W."""
    power_limit_default: Float | None
    temperature: Int | None
    """°C."""
    persistence: bool | None
    ecc: bool | None
    ecc_uncorrectable: Int | None
    """Uncorrectable errors since the driver was loaded."""
    ecc_uncorrectable_ever: Int | None
    """Of the SRAM, over the card's life: memory that no remap mends."""
    sram_threshold_exceeded: bool | None
    remap_uncorrectable: Int | None
    """Rows remapped over the card's life, for uncorrectable errors."""
    remap_pending: bool | None
    remap_failure: bool | None
    retired_pages: Int | None
    """What cards before Ampere do instead of remapping rows."""
    retirement_pending: bool | None
    slowdowns: list[str] | None
    """Why its clocks are held back at this moment, such as hw_thermal_slowdown."""
    link_gen: Int | None
    link_gen_max: Int | None
    """What GPU and slot could reach together."""
    link_gen_gpu: Int | None
    """What the GPU alone could."""
    link_gen_host: Int | None
    """What the slot alone could; virtual machines do not show it."""
    link_width: Int | None
    link_width_max: Int | None
    replays: Int | None
    """Packets that the link sent again since the driver was loaded."""
    fabric: str | None
    """How its registration with the NVSwitches went: Completed, In Progress …; None without."""
    utilisation: Int | None
    """Percent."""
    performance_state: str | None
    recovery_action: str | None
    processes: Int


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuUser:
    """A process that has a GPU's device file open."""

    pid: int
    name: str
    unit: str | None
    """The systemd service or scope that it belongs to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    links: list[list[str]]
    """links[i][j]: X, PIX, PXB, PHB, NODE, SYS or NV# between GPU i and GPU j."""
    numa: list[Int | None]
    cpus: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class PciDevice:
    slot: str
    device: str
    """vendor:device in lower-case hex, such as 10de:2bb5."""
    kind: str
    """Class in lower-case hex, such as 0302."""
    numa: Int | None
    driver: str | None
    iommu: str | None
    """How the IOMMU maps its addresses: identity, DMA, DMA-FQ …; None without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Xid:
    """What the driver reported to the kernel's log in this boot, each kind once per GPU."""

    slot: str
    """PCI address, such as 0000:06:00."""
    code: Int
    count: Int
    text: str
    """The last such line, from the number on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolkits:
    installed: dict[str, str | None]
    """'13.1' → nvcc's own version such as '13.1.80', None where nvcc does not answer."""
    default: str | None
    """What /usr/local/cuda finally points to."""
