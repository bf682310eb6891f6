"""What a host is made of, and how it was booted."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from provision.facts.kinds import Float, Int, Moment

DIRECTORY = "directory"


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
class File:
    sha256: str
    """Of its content; DIRECTORY where the path is one."""
    mode: Int
    """Permission bits, such as 0o644."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    total: Int
    """Bytes."""
    available: Int
    """Bytes that a process of ours may still use: of the machine, and of all ancestor cgroups."""
    limit: Int | None
    """Bytes: the least limit of all ancestor cgroups, None where there is none."""
    cpus: Int
    """Those that we may run on and have a share of."""


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
class Iommu:
    groups: Int


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a login may use; None is no limit."""

    memlock: Int | None
    """Bytes that may be locked into memory."""
    nofile: Int | None
    """Files that may be open: the hard limit, to which a server may raise its own."""
    shm: Int | None
    """Size of /dev/shm in bytes; None where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SecureBoot:
    enabled: bool
    enrolled: bool | None
    """DKMS's signing key is known to the firmware; None where there is none, or no mokutil."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    active: str
    enabled: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    run: str
    who: str
    since: Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    last: str | None
    """The run that was started last, None where none ever was."""
    failed: list[str]
    """Ids of the changes that failed in it, as long as the host was not restarted since."""
