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
    remap_pending: bool | None
    remap_failure: bool | None
    link_gen: Int | None
    link_gen_max: Int | None
    link_width: Int | None
    link_width_max: Int | None
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolkits:
    installed: dict[str, str | None]
    """'13.1' → nvcc's own version such as '13.1.80', None where nvcc does not answer."""
    default: str | None
    """What /usr/local/cuda finally points to."""
