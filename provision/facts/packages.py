"""What dpkg has and apt would take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from provision.facts.kinds import PackageName


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
    """Every NVIDIA and CUDA package, every one asked for, and every one that is held or in a state
    that does not last, whoever it belongs to; one that is missing is not there."""
    noted: list[PackageName]
    """Of those the ones whose holds a transaction was to restore and did not, being cut off."""


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
