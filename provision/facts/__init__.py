"""What a host is: the probe's JSON as frozen values.

Every collector's answer is one of three: a value, `Absent` (the thing is not there) or
`Unknown` (it could not be found out, and why). Nothing is ever replaced by a default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from provision.errors import ProvisionError, dotted, shown
from provision.facts.environments import Environment, FileChange, Moved, Sealed
from provision.facts.machine import (
    DIRECTORY,
    Boot,
    Clock,
    CloudInit,
    Disk,
    File,
    Iommu,
    Journal,
    Limits,
    Memory,
    Os,
    Python,
    Run,
    SecureBoot,
    Unit,
)
from provision.facts.nvidia import (
    Driver,
    Gpu,
    GpuUser,
    Kernel,
    Module,
    Nvml,
    PciDevice,
    Toolkits,
    Topology,
    Xid,
)
from provision.facts.packages import Apt, Dpkg, Package, Policy, Simulation, Source

__all__ = [
    "DIRECTORY",
    "SCHEMA",
    "Absent",
    "Apt",
    "Boot",
    "Clock",
    "CloudInit",
    "Disk",
    "Dpkg",
    "Driver",
    "Environment",
    "Facts",
    "File",
    "FileChange",
    "Gpu",
    "GpuUser",
    "Iommu",
    "Journal",
    "Json",
    "Kernel",
    "Limits",
    "Memory",
    "Module",
    "Moved",
    "Nvml",
    "Os",
    "Package",
    "PciDevice",
    "Policy",
    "Python",
    "Run",
    "Sealed",
    "SecureBoot",
    "Simulation",
    "Source",
    "Toolkits",
    "Topology",
    "Unit",
    "Unknown",
    "WrongFacts",
    "Xid",
    "parse",
]

SCHEMA = 1
"""Version of the probe's JSON. Raised when a saved facts file can no longer be read."""

Json = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Absent:
    """The thing asked about is not on the host."""

    reason: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """It could not be found out."""

    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """One host at one moment. Each field is one collector's answer."""

    os: Os | Absent | Unknown
    boot: Boot | Absent | Unknown
    cloud_init: CloudInit | Absent | Unknown
    dpkg: Dpkg | Absent | Unknown
    apt: Apt | Absent | Unknown
    files: dict[str, File | None] | Absent | Unknown
    """Asked-for path → the file, None where there is none."""
    kernel: Kernel | Absent | Unknown
    driver: Driver | Absent | Unknown
    nvml: Nvml | Absent | Unknown
    gpus: list[Gpu] | Absent | Unknown
    gpu_users: list[GpuUser] | Absent | Unknown
    topology: Topology | Absent | Unknown
    pci: list[PciDevice] | Absent | Unknown
    """NVIDIA's devices on the bus, driver or not."""
    device_files: list[str] | Absent | Unknown
    """Names in /dev that begin with nvidia."""
    xids: list[Xid] | Absent | Unknown
    iommu: Iommu | Absent | Unknown
    acs: dict[str, bool] | Absent | Unknown
    """PCI address of each bridge above NVIDIA's devices → it sends what they tell each other up
    to the root complex."""
    secure_boot: SecureBoot | Absent | Unknown
    memory: Memory | Absent | Unknown
    limits: Limits | Absent | Unknown
    disks: dict[str, Disk] | Absent | Unknown
    clock: Clock | Absent | Unknown
    toolkits: Toolkits | Absent | Unknown
    compilers: dict[str, str | None] | Absent | Unknown
    units: dict[str, Unit | None] | Absent | Unknown
    environments: dict[str, Environment | None] | Absent | Unknown
    uv: dict[str, str | None] | Absent | Unknown
    """Asked-for path of a uv executable → its version."""
    journal: Journal | Absent | Unknown
    kept: dict[str, dict[str, str | None]] | Absent | Unknown
    """Package → version → the file that was kept of it, so that the host can go back."""
    run: Run | Absent | Unknown
    """The apply that is going on at this moment."""
    simulations: dict[str, Simulation] | Absent | Unknown
    """What apt would do, by the key of the transaction asked about."""


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    """The value type of each field, without Absent and Unknown, which the wire spells apart."""
    hints = Facts.__annotations__
    scope = globals()
    return {
        name: TypeAdapter(eval(hint.removesuffix(" | Absent | Unknown"), scope))  # noqa: S307
        for name, hint in hints.items()
    }


class WrongFacts(ProvisionError):
    """What a host says of itself is not of the expected shape."""


def parse(raw: Json) -> Facts:
    """Read the probe's JSON.

    Raises WrongFacts naming the dotted path of what is not of the expected shape.
    """
    if raw.get("schema") != SCHEMA:
        raise WrongFacts(
            f"facts have schema {shown(raw.get('schema'))}, expected {SCHEMA}",
            hint="take the facts anew: invoke facts --json",
        )
    answers = raw.get("facts")
    if not isinstance(answers, Mapping):
        raise WrongFacts(f"facts: expected a mapping of collectors, got {shown(answers)}")
    return Facts(**{n: answer(n, one, answers.get(n)) for n, one in _adapters().items()})


def answer(name: str, adapter: TypeAdapter[Any], raw: Any) -> Any:  # noqa: ANN401 - of each type
    """One collector's answer: its value, Absent or Unknown. Raises WrongFacts."""
    if raw is None:
        return Unknown("the probe did not say")
    if not isinstance(raw, Mapping):
        raise WrongFacts(f"facts: {name}: expected a mapping, got {shown(raw)}")
    match raw.get("status"):
        case "ok":
            try:
                return adapter.validate_python(raw.get("value"))
            except ValidationError as error:
                first = error.errors()[0]
                path = dotted((name, *first["loc"]))
                found = shown(first["input"])
                raise WrongFacts(f"facts: {path}: {first['msg']}, got {found}") from error
        case "absent":
            return Absent(_line(raw.get("reason", "")))
        case _:
            return Unknown(_line(raw.get("reason", "no reason given")))


def _line(reason: object) -> str:
    """A reason in one line, as a message has it: programs say theirs in several."""
    return " ".join(str(reason).split())
