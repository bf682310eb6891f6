"""WHEEL.provenance → Provenance: what a build was told, what it measured, what its wheel proved.

Only what is shown of it; the file has more, for those who ask where a wheel comes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from packaging.utils import parse_wheel_filename
from pydantic import BaseModel, ConfigDict, Field, model_validator

from provision import wheelhouse
from provision.errors import UsageError
from provision.stack import validated

SUFFIX = ".provenance"
ANEW = "build the wheel anew: invoke build --force --recipe NAME"
Epoch = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
"""Seconds since the epoch."""
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=2**60)]
"""Of things, or bytes."""


class Part(BaseModel):
    """Frozen; what else the file says is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Toolkit(Part):
    """The CUDA toolkit that compiled it."""

    release: str


class Recipe(Part):
    """What was asked for."""

    name: str
    wheel: str
    stack: str
    toolkit: Toolkit


class Wheel(Part):
    """What came of it."""

    file: str
    sha256: str
    size: Count
    """Bytes."""
    requires: tuple[str, ...]
    archs: tuple[str, ...]
    glibc: str

    @property
    def version(self) -> str:
        """Local label included."""
        return str(parse_wheel_filename(self.file)[1])

    @model_validator(mode="after")
    def _named(self) -> Wheel:
        parse_wheel_filename(self.file)  # a ValueError where it is no wheel's name
        return self


class Proof(Part):
    """What the wheel showed on the build host, beside what its manifest says."""

    kernels: Mapping[str, Any]
    """Of its kernels' test: `skipped` with the reason, or `gpu` and `results`."""


class Host(Part):
    """Where it was built."""

    kernel: str
    machine: str
    glibc: str
    nvcc: str
    processors: Count


class Attempt(Part):
    """One compiler that was let in: a unit's whole compilation, or what was killed of it."""

    unit: str
    exit: int
    killed: bool
    start: Epoch
    end: Epoch
    cpu: Seconds
    peak: Count
    """Bytes."""
    predicted: Count
    """Bytes."""

    @model_validator(mode="after")
    def _in_order(self) -> Attempt:
        if self.end < self.start:
            raise ValueError("it ends before it starts")
        return self


class Sample(Part):
    """What all compilers used at a moment."""

    at: Epoch
    used: Count
    """Bytes."""
    running: Count


class Provenance(Part):
    """How one wheel came to be."""

    recipe: Recipe
    wheel: Wheel
    budget: Annotated[int, Field(ge=1, le=2**60)]
    """Bytes."""
    cores: Annotated[int, Field(ge=1, le=2**20)]
    proof: Proof
    host: Host
    start: Epoch
    """Of the last run: a build that was interrupted has several."""
    seconds: Seconds
    """That the last run took."""
    units: tuple[Attempt, ...]
    """All attempts at all units, of all runs; none where the build went without the gate."""
    memory: tuple[Sample, ...]


def parse(text: str, file: str) -> Provenance:
    """Read a provenance's text. Raises UsageError naming file and field."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not a wheel's provenance: {error}", hint=ANEW) from error
    if not isinstance(data, dict):
        raise UsageError(f"{file}: expected an object with a build's records", hint=ANEW)
    return validated(Provenance, data, file)


def place(wheel: str, folder: Path) -> Path:
    """The provenance beside a wheel of the wheelhouse, `folder`; without a name the newest one's.

    `wheel` is a file's name there, or a path; its provenance's does as well. Raises UsageError
    where a wheelhouse has none.
    """
    if not wheel:
        return _newest(folder)
    file = f"{wheel.removesuffix(SUFFIX)}{SUFFIX}"
    return Path(file) if "/" in wheel else folder / file


def load(path: Path) -> Provenance:
    """Read a provenance. Raises UsageError where it is not there, or is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            f"{path}: there is no provenance of this wheel",
            hint="see the wheels that were built: invoke wheels.list",
        ) from error
    except OSError as error:
        raise wheelhouse.unread(path, error) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a wheel's provenance: {error}", hint=ANEW) from error
    return parse(text, str(path))


def _newest(folder: Path) -> Path:
    every = wheelhouse.files(folder)
    found = [path for path in every if path.name.endswith(f".whl{SUFFIX}")]
    if found:
        # Of the link itself: what it leads to may be gone.
        return max(found, key=lambda path: path.lstat().st_mtime)
    if any(path.name.endswith(".whl") for path in every):
        raise UsageError(f"none of the wheels in {folder} has a provenance", hint=ANEW)
    raise UsageError(f"{folder} holds no wheel yet", hint="build one: invoke build --recipe NAME")
