"""What a host is: the probe's JSON as frozen values.

Every collector's answer is one of three: a value, `Absent` (the thing is not there) or
`Unknown` (it could not be found out, and why). Nothing is ever replaced by a default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from provision.errors import ProvisionError, dotted, shown

DIRECTORY = "directory"
SCHEMA = 1
"""Version of the probe's JSON. Raised when a saved facts file can no longer be read."""

Json = Mapping[str, Any]
Int = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""What fits into 64 bits, as every size and count of a kernel does; Python's own never end."""
Float = Annotated[float, Field(allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=0, lt=2**40)]
"""Seconds since the epoch; later than this no calendar goes."""
PackageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9+._-]*(:[a-z0-9-]+)?$")]
"""As dpkg itself holds names to (pkg_name_is_illegal), with an architecture behind it: such a
name ends in command lines, where another one could be an option."""


@dataclasses.dataclass(frozen=True, slots=True)
class Absent:
    """The thing asked about is not on the host."""

    reason: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """It could not be found out."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Python:
    version: str
    """Full version of the system's python3, such as '3.11.2'."""
    headers: bool
    """Python.h is installed: what compiles at run time (Triton) needs it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Os:
    id: str
    version_id: str
    codename: str
    name: str
    arch: str
    """As uname prints it: x86_64, aarch64."""
    libc: str
    python: Python
    systemd: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Boot:
    id: str
    """The kernel's random boot id: a new one is the proof of a reboot."""
    kernel: str
    """The running kernel, from /proc/sys/kernel/osrelease."""
    next_kernel: str | None
    """The newest kernel in /boot, which the next boot takes; None where /boot has none."""
    cmdline: str
    uptime: Float
    """Seconds since boot."""
    inhibitors: list[str]
    """Who forbids a shutdown, and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CloudInit:
    running: bool
    """It is switched on and has not finished in this boot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    version: str
    status: str
    """dpkg's word: installed, config-files, half-configured, unpacked …"""
    hold: bool = False
    auto: bool = False
    """Installed as a dependency: `apt autoremove` may take it."""
    reinstreq: bool = False
    """dpkg's own flag: its files are in part the old ones, in part the new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dpkg:
    interrupted: bool
    """/var/lib/dpkg/updates holds an unfinished transaction."""
    packages: dict[PackageName, Package | None]
    """Every NVIDIA and CUDA package, every one asked for, and every one in a state that does not
    last, whoever it belongs to; one that is missing is not there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    candidate: str | None
    versions: dict[str, str]
    """version → where it comes from: 'installed', a URI, or several joined by a space."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    file: str
    suite: str
    signed_by: str | None
    """The keyring file that the source names."""
    fingerprints: list[str]
    """Of the primary keys in that keyring, 40 upper-case hex digits each."""
    trusted: bool
    """apt takes packages from it without any signature."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Apt:
    error: str | None
    """Why apt can't read its own configuration, in its words; it then knows no policy."""
    policy: dict[str, Policy]
    sources: dict[str, list[Source]]
    """URI without its trailing slash → every source that names it."""
    fresh: dict[str, bool]
    """URI as in `sources` → its index was fetched within the last hour, by the host's clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    sha256: str
    """Of its content; DIRECTORY where the path is one."""
    mode: Int
    """Permission bits, such as 0o644."""


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
class Iommu:
    groups: Int


@dataclass(frozen=True, kw_only=True, slots=True)
class SecureBoot:
    enabled: bool
    enrolled: bool | None
    """DKMS's signing key is known to the firmware; None where there is none, or no mokutil."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    total: Int
    """Bytes."""
    available: Int
    """Bytes."""
    limit: Int | None
    """Bytes: the least limit of all ancestor cgroups, None where there is none."""
    cpus: Int


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    total: Int
    """Bytes."""
    free: Int
    """Bytes that an unprivileged process could still write."""
    device: int
    """Paths of the same device (st_dev) share that room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    now: Moment
    """By the host's clock."""
    synchronised: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolkits:
    installed: dict[str, str | None]
    """'13.1' → nvcc's own version such as '13.1.80', None where nvcc does not answer."""
    default: str | None
    """What /usr/local/cuda finally points to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    active: str
    enabled: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    path: str
    """Within the release."""
    what: Literal["added", "changed", "removed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A distribution that was put into a release after that was sealed."""

    by: str
    """The tool, as it names itself: pip, uv …"""
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    release: str | None
    """Name of the release that `current` points to; None before the first switch."""
    lock: str | None
    """sha256 of the lock that the release was made from."""
    wheels: dict[str, str | None]
    """Wheels of our own that joined it: name → sha256."""
    python: str | None
    intact: bool
    """Every file of the current release is as it was when the release was sealed."""
    changes: list[FileChange]
    """The first of those that are not."""
    distributions: dict[str, str | None]
    """Normalised name → version, read from the dist-info folders of the current release."""
    moved: dict[str, Moved | None]
    """Distributions that came later, looked for where the release is not intact."""
    broken: str | None
    """What Numba says when it is imported, where NumPy is among the moved and it refuses."""
    releases: dict[str, str | None]
    """All that were begun → when each was sealed, in UTC as 2026-11-30T06:20:00.000Z; None: never.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    last: str | None
    """The run that was started last, None where none ever was."""
    failed: list[str]
    """Ids of the changes that failed in it, as long as the host was not restarted since."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    run: str
    who: str
    since: Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulation:
    install: dict[PackageName, Annotated[list[str | None], Field(min_length=2, max_length=2)]]
    """Package → [version now or None, version afterwards]."""
    remove: dict[PackageName, str]
    """Package → version that apt would remove."""
    download: int
    """Bytes that are not in apt's cache yet."""
    installs: int
    """Bytes that the packages take more than now; negative when they take less."""
    error: str | None
    """Why apt refuses."""
    hint: str
    """What can be done about that, where it is known."""


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
    iommu: Iommu | Absent | Unknown
    secure_boot: SecureBoot | Absent | Unknown
    memory: Memory | Absent | Unknown
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
    return Facts(**{name: _answer(name, answers.get(name)) for name in _adapters()})


def _answer(name: str, raw: Any) -> Any:  # noqa: ANN401 - each field has its own type
    if raw is None:
        return Unknown("the probe did not say")
    if not isinstance(raw, Mapping):
        raise WrongFacts(f"facts: {name}: expected a mapping, got {shown(raw)}")
    match raw.get("status"):
        case "ok":
            try:
                return _adapters()[name].validate_python(raw.get("value"))
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
