"""The wheels that were built here: what each is, and which one fits a lock.

Pure but for `files`, `look`, `load`, `content` and `make_ready`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pydantic import Field, ValidationError

from provision import stack
from provision.errors import ProvisionError, UsageError
from provision.mistakes import first as main_mistake
from provision.stack import Sha256, Table

VARIABLE = "FIRSTLIGHT_WHEELHOUSE"
"""Environment variable that names another folder, such as one that a team shares."""


def place(named: str | None) -> Path:
    """The wheelhouse's folder, absolute: what VARIABLE says, else the project's own."""
    if not named:
        return Path(__file__).parents[1] / "wheels" / "dist"
    # Unlike Path's own it leaves the `~` of a user that there is not.
    return Path(os.path.expanduser(named)).absolute()  # noqa: PTH111


FOLDER = place(os.environ.get(VARIABLE))


class Manifest(Table):
    """What stands beside every built wheel, as WHEEL.json."""

    file: str
    """The wheel's file name; name, version, Python and platform stand in it."""
    sha256: Sha256
    size: Annotated[int, Field(ge=0)]
    """Bytes."""
    requires: tuple[str, ...]
    """Its Requires-Dist: among them the exact torch that it was built against."""
    archs: tuple[Annotated[str, Field(pattern=r"^[0-9]{1,2}\.[0-9]$")], ...]
    """GPU architectures that it has kernels for, such as '12.0'."""
    glibc: Annotated[str, Field(pattern=r"^([0-9]{1,3}(\.[0-9]{1,3}){1,2})?$")]
    """The least that it runs on, such as '2.34' or '2.2.5'; '' where it needs none."""

    @property
    def name(self) -> str:
        """The distribution, normalised."""
        return str(parse_wheel_filename(self.file)[0])

    @property
    def version(self) -> str:
        """Its version, local label included."""
        return str(parse_wheel_filename(self.file)[1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Suits:
    """What a wheel is to run on."""

    versions: Mapping[str, str]
    """Distribution → version, of the environment that it joins."""
    python: str
    """Full version, such as '3.11.2'."""
    glibc: str = ""
    """Such as '2.36'; '' where it is not known."""
    archs: Collection[str] = ()
    """Of the GPUs, such as '12.0', as far as they are known."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why no wheel fits."""

    reason: str


def files(folder: Path, *, first: bool = False) -> list[Path]:
    """All that lies in a wheelhouse, sorted by name.

    The project's own folder comes with its first wheel. One that VARIABLE names has to be there,
    unless the `first` wheel is about to be built into it: a share that is not mounted would look
    as if nobody had built anything.

    Raises UsageError for a folder that is not there or can't be read.
    """
    named = bool(os.environ.get(VARIABLE))
    lead = f"{VARIABLE}: " if named else ""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError as error:
        above = folder.parent
        if not named or (first and above.is_dir()):
            return []
        lacking = f"{folder}, nor {above} to make it in" if first else f"{folder}"
        raise UsageError(
            f"{lead}there is no folder {lacking}",
            hint="is its share mounted? The first `invoke build` makes the folder, not those above",
        ) from error
    except OSError as error:
        raise UsageError(
            f"{lead}{folder}: can't be read as a folder: {error.strerror}", hint=_looked_at(folder)
        ) from error


def make_ready(folder: Path) -> None:
    """See that a wheel can be kept: before it is built, not hours later. Raises ProvisionError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise unchanged(error) from error


def unchanged(error: OSError) -> ProvisionError:
    """What kept the wheelhouse, or what belongs to it, from being changed."""
    path = Path(str(error.filename or FOLDER))
    path = path if path.exists() else path.parent  # else a file that was to be made
    hint = f"{_looked_at(path)}; then run the same command again"
    return ProvisionError(f"{path}: can't be changed: {error.strerror}", hint=hint)


def _looked_at(path: Path) -> str:
    """How whoever meets a path that can't be read sees why: what to say as a hint."""
    return f"see what it is, and who may do so: ls -ld {shlex.quote(str(path))}"


def load(folder: Path = FOLDER, *, first: bool = False) -> tuple[Manifest, ...]:
    """All wheels that were built. Raises UsageError for what can't be read, folder or manifest.

    That may be of the very wheel that is wanted; who looks at all of them asks `look`.
    """
    wheels, mistakes = look(folder, first=first)
    for mistake in mistakes.values():
        raise mistake
    return wheels


def look(
    folder: Path, *, first: bool = False
) -> tuple[tuple[Manifest, ...], dict[str, UsageError]]:
    """All wheels that were built, and wheel → what is wrong with the manifest that it has.

    `first`, and what is raised, are as for `files`.
    """
    wheels: list[Manifest] = []
    mistakes: dict[str, UsageError] = {}
    for path in files(folder, first=first):
        if not path.name.endswith(".whl.json"):
            continue
        try:
            wheels.append(_read(path))
        except UsageError as error:
            mistakes[path.name.removesuffix(".json")] = error
    return tuple(wheels), mistakes


def strays(folder: Path) -> list[str]:
    """Wheels without a manifest, which do not count: put there by hand, or half fetched.

    Raises as `files` does.
    """
    there = {path.name for path in files(folder)}
    return sorted(name for name in there if name.endswith(".whl") and f"{name}.json" not in there)


def _read(path: Path) -> Manifest:
    try:
        found = Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
        parse_wheel_filename(found.file)
        for text in found.requires:
            Requirement(text)
        if f"{found.file}.json" != path.name:
            raise ValueError(f"it is that of {found.file}")
    except OSError as error:
        raise unread(path, error) from error
    except (ValueError, RecursionError) as error:
        wrong = main_mistake(error, Manifest) if isinstance(error, ValidationError) else error
        raise UsageError(
            f"{path}: not a wheel's manifest: {wrong}",
            hint="take the file away, and build the wheel anew",
        ) from error
    return found


def unread(path: Path, error: OSError) -> UsageError:
    """What to raise of a file that is there and can't be read."""
    return UsageError(f"{path}: can't be read: {error.strerror}", hint=_looked_at(path))


def content(wheels: Iterable[Manifest], sha256: str, folder: Path = FOLDER) -> bytes:
    """A built wheel's bytes.

    Raises ProvisionError when its file is gone or damaged, UsageError when it may be neither, and
    can't be read.
    """
    path = folder / next(wheel.file for wheel in wheels if wheel.sha256 == sha256)
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        found = b""
    except OSError as error:
        raise unread(path, error) from error
    if hashlib.sha256(found).hexdigest() != sha256:
        raise ProvisionError(
            f"{path}: is gone or damaged: its manifest states sha256 {sha256}",
            hint="invoke build --recipe NAME builds it anew",
        )
    return found


def wanted(wheels: Iterable[Manifest], stacks: Iterable[str] = ()) -> list[Manifest]:
    """Those that an environment of these stacks takes, on some Python; of all stacks without any.

    Raises UsageError for a stack or lock that can't be read.
    """
    found: list[Manifest] = []
    built = list(wheels)
    for one in map(stack.load, [*stacks] or stack.names()):
        for name, environment in one.environment.items():
            for text in environment.wheels:
                for python in environment.pythons:
                    suits = Suits(versions=one.locks[name].versions(python), python=python)
                    fits = fitting(built, text, suits)
                    if isinstance(fits, Manifest) and fits not in found:
                        found.append(fits)
    return found


def fitting(wheels: Iterable[Manifest], wanted: str, suits: Suits) -> Manifest | Unfit:
    """The newest wheel that satisfies a requirement and runs there."""
    requirement = Requirement(wanted)
    named = [w for w in wheels if w.name == canonicalize_name(requirement.name)]
    of_version = [w for w in named if requirement.specifier.contains(w.version, prereleases=True)]
    if not of_version:
        return Unfit("nobody has built this wheel yet")
    reasons = [(wheel, misfit(wheel, suits)) for wheel in of_version]
    fits = [wheel for wheel, reason in reasons if not reason]
    if not fits:
        return Unfit(f"the wheelhouse has {reasons[-1][0].file}, but {reasons[-1][1]}")
    return max(fits, key=lambda wheel: Version(wheel.version))


def misfit(wheel: Manifest, suits: Suits) -> str:
    """Why a wheel can't run there; '' when it can."""
    major, minor = suits.python.split(".")[:2]
    tags = parse_wheel_filename(wheel.file)[3]
    if not any(
        tag.interpreter in (f"cp{major}{minor}", "py3") or tag.abi == "abi3" for tag in tags
    ):
        return f"it is not for Python {major}.{minor}"
    if wheel.glibc and suits.glibc and Version(wheel.glibc) > Version(suits.glibc):
        return f"it needs glibc {wheel.glibc}, there is {suits.glibc}"
    if lacking := [arch for arch in suits.archs if arch not in wheel.archs]:
        return f"it has no kernels for {', '.join(lacking)}"
    host = {"python_version": f"{major}.{minor}", "python_full_version": suits.python}
    for text in wheel.requires:
        needs = Requirement(text)
        there = suits.versions.get(canonicalize_name(needs.name))
        if needs.marker and not needs.marker.evaluate(host):
            continue
        if there is None:
            return f"it needs {needs}, which the lock has not"
        if not needs.specifier.contains(there, prereleases=True):
            return f"it was built for {needs}, and the lock has {needs.name} {there}"
    return ""
