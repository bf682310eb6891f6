"""TOML → Stack: every version, origin, key fingerprint and lock that hosts are brought to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version as PythonVersion
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from provision import mistakes, tables
from provision.errors import UsageError, dotted, shown
from provision.locking import text as lock_text

FOLDER = Path(__file__).parent / "stacks"
UV_FILE = FOLDER / "uv.toml"
MINORS = range(10, 15)
"""Minor versions of Python 3 that locks are made for: from Ubuntu 22.04's to 3.14."""
PATCHES = range(40)
"""Patch versions to look through; no Python 3 has had more than 25."""

T = TypeVar("T", bound=BaseModel)


def _requirement(text: str) -> str:
    try:
        address = Requirement(text).url
    except InvalidRequirement as error:
        said = str(error).partition("\n")[0]  # below it the text again, and an arrow
        raise ValueError(f"not a requirement: {said}") from error
    if address:
        raise ValueError("it names an address; a lock holds versions from the index alone")
    return text


def _specifiers(text: str) -> str:
    try:
        found = _least(SpecifierSet(text))
    except InvalidSpecifier as error:
        raise ValueError("not a version range such as '>=3.11,<3.14'") from error
    if not found:
        raise ValueError(f"takes none of Python 3.{MINORS[0]} to 3.{MINORS[-1]}")
    return text


def _least(taken: SpecifierSet) -> tuple[str, ...]:
    """The least Python of every minor version that a range takes."""
    rows = ([f"3.{minor}.{patch}" for patch in PATCHES] for minor in MINORS)
    return tuple(least for row in rows if (least := next(taken.filter(row), "")))


def _public(url: str) -> str:
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError("has a login in it, which everybody on the host could read")
    if not parts.hostname and parts.scheme in ("http", "https"):
        raise ValueError("names no host")
    return url


def _version(text: str) -> str:
    try:
        PythonVersion(text)
    except ValueError as error:
        raise ValueError("not a version such as '2.41'") from error
    return text


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Fingerprint = Annotated[str, Field(pattern=r"^[0-9A-F]{40}$")]
PackageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
Version = Annotated[str, Field(pattern=r"^[A-Za-z0-9.+~:-]+$")]
Release = Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")]
Origin = Annotated[str, Field(pattern=r"^[A-Za-z0-9 ._-]+$")]
EnvironmentName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
"""It names a folder on hosts, and the lock's file here."""
Ordered = Annotated[Version, AfterValidator(_version)]
"""A version that is held against others, by what PEP 440 says of their order."""
RequirementText = Annotated[str, AfterValidator(_requirement)]
PythonRange = Annotated[str, AfterValidator(_specifiers)]
"""Such as '>=3.11,<3.14'."""
Public = AfterValidator(_public)
"""Of a URL: it stands in files that everybody on a host can read, in plans and in the journal."""


class Table(BaseModel):
    """A TOML table: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DriverPackages(Table):
    """How one distribution names the driver's packages."""

    revision: Version
    """What the distribution adds to the driver's version, such as '-1'."""
    packages: Annotated[tuple[PackageName, ...], Field(min_length=1)]
    tools: PackageName
    """The package that brings nvidia-smi."""
    module: PackageName
    """The package whose installation has DKMS build the kernel module."""
    pinned: tuple[PackageName, ...]
    archive: Origin
    """Release origin of the distribution's own archive, whose builds are kept out."""


class Driver(Table):
    """The NVIDIA driver, one version, one origin."""

    version: Ordered
    open: bool
    unwanted: tuple[str, ...]
    """Patterns (fnmatch) of packages that are not kept beside it."""
    debian: DriverPackages
    ubuntu: DriverPackages

    def packages(self, distribution: str) -> DriverPackages | None:
        """The packages for an os-release ID, None where the stack knows none."""
        known = {"debian": self.debian, "ubuntu": self.ubuntu}
        return known.get(distribution)


class Toolkit(Table):
    """One CUDA toolkit, installed beside the others."""

    package: PackageName
    version: Version
    driver: Ordered
    """Least driver that runs what it builds."""
    glibc_below: Ordered | None = None
    """The first glibc whose headers its nvcc can't read."""
    gcc_max: int | None = None
    """The newest major version of gcc that its nvcc takes as host compiler."""


class Architecture(Table):
    """A compute capability: what compiles for it, and which GPUs have it."""

    cuda: Ordered
    """The first CUDA release that knows it."""
    models: tuple[str, ...]
    """Patterns (fnmatch) of names as nvidia-smi prints them."""
    devices: tuple[Annotated[str, Field(pattern=r"^10de:[0-9a-f]{4}$")], ...] = ()
    """PCI ids: they are seen where no driver is."""


class Compilers(Table):
    """Packages that build kernel modules and extensions."""

    packages: tuple[PackageName, ...]


class Repository(Table):
    """An apt repository and the one key that may sign it."""

    url: Annotated[str, Public, Field(pattern=r"^(https?|file)://[A-Za-z0-9._~:/\[\]@+,%-]+$")]
    fingerprint: Fingerprint
    keyring_sha256: Sha256 | None = None
    """Of the package that brings the key; without it only the fingerprint is held to."""


class Environment(Table):
    """One Python environment, installed from one lock."""

    python: PythonRange
    requirements: tuple[RequirementText, ...]
    wheels: tuple[RequirementText, ...] = ()
    """Built by us, not in any index; they join when the wheelhouse holds them."""
    interpreter: Literal["system", "managed"] = "system"
    """Whose Python: the distribution's, with the headers of python3-dev, or one that uv fetches."""
    platform: str = Field(default="manylinux_2_31", pattern=r"^manylinux_2_(17|28|3[1-9]|40)$")
    """Least platform of its wheels, of those that uv can resolve for; the last two numbers are
    a glibc. The default is that of vLLM's wheels, and every supported distribution has it."""

    space_gib: Annotated[float, Field(gt=0)] | None = None
    """GiB that a release of it takes; the first one as much again, in uv's cache."""

    @property
    def pythons(self) -> tuple[str, ...]:
        """What it is locked for: the least Python of every minor version in its range."""
        return _least(SpecifierSet(self.python))

    def takes(self, python: str) -> bool:
        """It is locked for this Python."""
        minors = {_minor(least) for least in self.pythons}
        return _minor(python) in minors and SpecifierSet(self.python).contains(python)


class System(Table):
    """The part below Python: driver, toolkits, compilers, repositories."""

    driver: Driver
    toolkit: dict[Release, Toolkit]
    compilers: Compilers
    repository: dict[str, Repository]
    refused_keys: dict[str, tuple[Fingerprint, ...]] = {}
    """Distribution → keys of NVIDIA's that its apt takes no more."""
    any_minor: dict[str, Ordered] = {}
    """CUDA's major version → least driver that runs all its minor versions."""
    architecture: dict[str, Architecture] = {}
    """Compute capability → what is known of it."""
    space: dict[str, float]
    """Mount point → GiB that must be free before anything is installed."""


class Stack(Table):
    """One stack: the state that its hosts are brought to."""

    name: str
    system: System
    date: date
    toolkits: tuple[Release, ...]
    """Which of the system's toolkits it wants."""
    environment: dict[EnvironmentName, Environment] = {}
    """Without any, what hosts run is in interpreters of their own."""

    @property
    def toolkit(self) -> dict[str, Toolkit]:
        """Release → toolkit, those that this stack wants."""
        return {release: self.system.toolkit[release] for release in self.toolkits}

    @cached_property
    def locks(self) -> dict[str, Lock]:
        """Each environment's lock. Raises UsageError where the file is missing."""
        return {name: _lock(self.name, name) for name in self.environment}


class Lock(Table):
    """Hashed requirements, without URLs."""

    text: str

    @property
    def sha256(self) -> str:
        """Of the text: names the release made from it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def pins(self) -> tuple[lock_text.Pin, ...]:
        """All rows. Raises ValueError naming the line that is none."""
        return lock_text.read(self.text)

    def versions(self, python: str) -> dict[str, str]:
        """Distribution → version, for a host's Python such as 3.11.2."""
        return {pin.name: pin.version for pin in self.pins if pin.applies(python)}


class Uv(Table):
    """The uv that hosts get: the wheel of the version that this project itself depends on."""

    version: Version
    wheels: dict[Literal["x86_64", "aarch64"], Sha256]


def names() -> list[str]:
    """The stacks there are."""
    return sorted(
        path.stem
        for path in FOLDER.glob("*.toml")
        if re.search(rb"^system *=", path.read_bytes(), re.MULTILINE)
    )


def load(name: str) -> Stack:
    """Read `stacks/NAME.toml` and the system file that it names.

    A system file with `like = "OTHER"` states what differs from that one.

    Raises UsageError naming file and field.
    """
    path = FOLDER / f"{name}.toml"
    if name not in names():
        raise UsageError(
            f"there is no stack {name!r} in provision/stacks",
            hint=f"stacks there: {', '.join(names())}",
        )
    data = tables.read(path)
    beside = data.get("system")
    system = FOLDER / f"{beside}.toml" if isinstance(beside, str) else FOLDER
    if system not in FOLDER.glob("*.toml"):
        raise UsageError(
            f"{path.name}: system: there is no file {dotted((beside,))}.toml beside it"
        )
    stacks = {*names(), UV_FILE.stem}
    others = [path.stem for path in FOLDER.glob("*.toml") if path.stem not in stacks]
    table = validated(System, tables.whole(system, others, "system file"), system.name)
    found = validated(Stack, {**data, "system": table}, path.name, own={"name": name})
    for release in found.toolkits:
        if release not in table.toolkit:
            known = ", ".join(table.toolkit)
            raise UsageError(f"{path.name}: toolkits: {system.name} has {known}, not {release!r}")
    return found


def load_uv() -> Uv:
    """The uv that hosts get."""
    return validated(Uv, tables.read(UV_FILE), UV_FILE.name)


def validated(
    model: type[T], data: dict[str, Any], file: str, *, own: Mapping[str, Any] | None = None
) -> T:
    """Build a model; raises UsageError with file, field, what was found and expected.

    `own`: fields that are not the file's to say, and what they are.
    """
    own = own or {}
    for field in own:
        if field in data:
            raise UsageError(f"{file}: {field}: not for the file to say: it is {shown(own[field])}")
    try:
        return model.model_validate({**data, **own} if own else data)
    except ValidationError as error:
        mistake = mistakes.first(error, model, own)
        raise UsageError(f"{file}: {mistake}", hint=mistake.hint) from error


def lock_file(stack: str, environment: str) -> Path:
    """Where an environment's lock is kept."""
    return FOLDER / "locks" / f"{stack}.{environment}.txt"


def _lock(stack: str, environment: str) -> Lock:
    path = lock_file(stack, environment)
    mend = f"make it: invoke lock --stack {stack} --environment {environment}"
    if not path.is_file():
        raise UsageError(
            f"stack {stack}: environment {environment} has no lock {path.name}", hint=mend
        )
    lock = Lock(text=tables.text(path, hint=mend))
    try:
        _ = lock.pins
    except ValueError as error:
        raise UsageError(f"{path.name}: {error}", hint=mend) from error
    return lock


def _minor(python: str) -> tuple[str, ...]:
    return tuple(python.split(".")[:2])
