"""What a Python environment contains, and what became of it."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from provision.facts.kinds import Int


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
class Sealed:
    """A finished release that is not current."""

    lock: str | None
    wheels: dict[str, str | None]
    python: str | None
    intact: bool | None
    """As for the current one; None where that one is as asked and this one was not looked at."""


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
    proved: dict[str, Int]
    """Compute capability → GPUs of it, to which every CUDA extension was held when the release was
    sealed; {} where none answered then."""
    sizes: dict[str, Int]
    """The current release → bytes of its files."""
    stored: list[str]
    """What releases are made from: `locks/…`, `wheels/…` and `feed/…` beside them."""
    older: dict[str, Sealed]
    """Finished releases but for the current one."""
    releases: dict[str, str | None]
    """All that were begun → when each was sealed, in UTC as 2026-11-30T06:20:00.000Z; None: never.
    """
