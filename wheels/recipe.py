"""TOML → Recipe: how one CUDA wheel is built, what it must prove, and how jobs are told to it."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from packaging.version import Version as PythonVersion
from pydantic import AfterValidator, Field, model_validator

from provision.errors import UsageError
from provision.stack import (
    EnvironmentName,
    Ordered,
    PythonRange,
    Release,
    RequirementText,
    Sha256,
    Table,
    validated,
)
from provision.tables import whole
from wheels import profile

FOLDER = Path(__file__).parent / "recipes"
Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


def _capability(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]", text, re.ASCII):
        raise ValueError("expected a compute capability such as '12.0'")
    return text


Capability = Annotated[str, AfterValidator(_capability)]
"""Of GPUs."""
DistributionName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
"""Normalised (PEP 503)."""
File = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


def _public(text: str) -> str:
    if PythonVersion(text).local:
        raise ValueError("expected a version without a local label: the build gives it its own")
    return text


NVCC = "PYTORCH_NVCC"
"""Where the gate is told the build."""
ENVIRONMENT = "{environment}"
"""In a place or a variable: the site-packages folder of the build environment."""
Place = Annotated[str, Field(pattern=r"^(\{environment\})?(/[A-Za-z0-9._+-]+)+$")]
"""A path on the build host, or one below its build environment's site-packages."""


Below = Annotated[str, Field(pattern=r"^\w[\w.+-]*(/\w[\w.+-]*)*$")]
"""A path below a folder that is named elsewhere."""


class Source(Table):
    """Where the code comes from: an sdist of the package index, by hash, or a folder of ours."""

    sdist: Sha256 | None = None
    folder: File | None = None
    """Beside the recipe."""
    units: Annotated[tuple[str, ...], Field(min_length=1)]
    """Patterns (fnmatch) of the files that nvcc compiles, within the source's folder."""

    @model_validator(mode="after")
    def _one(self) -> Source:
        if (self.sdist is None) == (self.folder is None):
            raise ValueError("expected either `sdist` (its sha256) or `folder`")
        return self


class Toolkit(Table):
    """The CUDA toolkit that compiles it."""

    release: Release
    home: Place
    """CUDA_HOME."""
    links: dict[Below, Below] = Field(default_factory=dict)
    """Below it: link → target, which a toolkit of the package index lacks."""


class Jobs(Table):
    """How the build is told how many compilers it may start, and how many threads each has."""

    variable: Variable = "MAX_JOBS"
    means: Literal["jobs", "jobs*threads"] = "jobs"
    """`jobs*threads`: the build itself divides it by the threads."""
    threads: Variable | None = None
    """Of nvcc's `--threads`: archs that one compiler works on at a time."""


class Archs(Table):
    """How the build is told which GPUs it is for."""

    variable: Variable
    form: Literal["12.0", "120"] = "12.0"
    separator: str = Field(default=";", pattern=r"^[;, ]$")

    def text(self, archs: tuple[str, ...]) -> str:
        """The variable's value for compute capabilities such as '12.0'."""
        words = archs if self.form == "12.0" else [arch.replace(".", "") for arch in archs]
        return self.separator.join(words)


class Build(Table):
    """The build environment, and what the build is told."""

    python: PythonRange = ">=3.11,<3.14"
    requirements: tuple[RequirementText, ...] = ()
    """Beside the distributions that the wheel is built against."""
    interpreter: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._+-]+)+$")] | None = None
    """Of an environment that the build host has already; without it one is made from the lock."""
    backend: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:]+$")] = (
        "setuptools.build_meta:__legacy__"
    )
    """PEP 517's build-backend."""
    jobs: Jobs = Jobs()
    archs: Archs
    label: Variable
    """Takes the version's local label."""
    env: dict[Variable, str] = Field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    """Words of the build's output after which its wheel is not what was asked for."""

    @model_validator(mode="after")
    def _each_once(self) -> Build:
        own = [self.jobs.variable, self.jobs.threads, self.archs.variable, self.label, NVCC]
        for name in filter(None, own):
            if own.count(name) > 1 or name in self.env:
                raise ValueError(f"env or variables: {name} is set for another purpose already")
        return self


class Checks(Table):
    """What the wheel must show before it enters the wheelhouse."""

    imports: Annotated[tuple[str, ...], Field(min_length=1)]
    """Modules that must import on the CPU, in order."""
    kernels: File | None = None
    """Script beside the recipe that runs its kernels against a float64 reference on a GPU."""


class Recipe(Table):
    """One wheel, and how it is built."""

    name: File
    """The recipe's: its file's name."""
    wheel: DistributionName
    version: Annotated[Ordered, AfterValidator(_public)]
    stack: str
    """Whose locked versions it is built against."""
    environment: EnvironmentName
    against: tuple[DistributionName, ...] = ()
    """Distributions whose exact version the wheel's metadata is to name."""
    versions: dict[DistributionName, Ordered] = Field(default_factory=dict)
    """Other versions of these than the lock's, for a host that has an environment of its own."""
    archs: tuple[Capability, ...] = ()
    """Without it those of the fleet's GPUs."""
    threads: int = Field(default=1, ge=1, le=16)
    """Archs that one compiler works on at a time; each takes the memory of a whole unit."""
    profile: File
    """What is known of its units' memory and time: recipes/profiles/NAME.json.

    One of those there are; of what nobody has measured yet the recipe's own name, for its first
    build to write."""
    source: Source
    toolkit: Toolkit
    build: Build
    checks: Checks

    @model_validator(mode="after")
    def _versions_of_these(self) -> Recipe:
        for name in self.versions:
            if name not in self.against:
                there = ", ".join(self.against) or "none"
                raise ValueError(f"versions: {name} is not in `against` (there: {there})")
        return self


def names() -> list[str]:
    """The recipes there are."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Recipe:
    """Read `recipes/NAME.toml`; with `like = "OTHER"` it states what differs from that one.

    Raises UsageError naming file and field.
    """
    if name not in names():
        near = get_close_matches(name, names(), 1)
        raise UsageError(
            f"there is no recipe {name!r} in wheels/recipes",
            hint=f"did you mean {near[0]}?" if near else f"recipes there: {', '.join(names())}",
        )
    data = whole(FOLDER / f"{name}.toml", names(), "recipe")
    one = validated(Recipe, data, f"{name}.toml", own={"name": name})
    if one.profile not in (name, *profile.names()):
        raise UsageError(
            f"{name}.toml: profile: there is no {one.profile!r} in wheels/recipes/profiles",
            hint=f"profiles there: {', '.join(profile.names()) or 'none'}; a recipe that was never "
            f"built names its own, {name!r}, which its first build writes",
        )
    return one


def label(recipe: Recipe, versions: dict[str, str]) -> str:
    """The local version label: the CUDA release, then what it is built against: cu128torch2.9.1.

    `versions`: distribution → version of the build environment.
    """
    built = [f"{name}{PythonVersion(versions[name]).public}" for name in recipe.against]
    return re.sub(
        r"[^a-z0-9.]", ".", f"cu{recipe.toolkit.release.replace('.', '')}{''.join(built)}"
    )
