"""TOML → Recipe: what a wheel is built from, against which torch, with which toolkit, and how."""

from __future__ import annotations

import tomllib
from pathlib import Path
from string import Formatter
from typing import Annotated, Literal

from packaging.version import Version
from pydantic import AfterValidator, Field

from provision.errors import UsageError
from provision.stack import Release, RequirementText, Sha256, Table, validated

FOLDER = Path(__file__).parent / "recipes"
FIELDS = frozenset({"archs", "threads", "local", "torch"})
"""What may stand in braces in a recipe's texts."""


def _template(text: str) -> str:
    for _, field, _, _ in Formatter().parse(text):
        if field is not None and field not in FIELDS:
            raise ValueError(f"knows {', '.join(sorted(FIELDS))} in braces, not {field!r}")
    return text


def _version(text: str) -> str:
    Version(text)
    return text


Template = Annotated[str, AfterValidator(_template)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


class Archs(Table):
    """How the build is told for which GPUs it compiles."""

    variable: Variable
    style: Literal["dotted", "joined"]
    """'12.0' or '120'."""
    separator: str = ";"


class Jobs(Table):
    """How the build is told how many compilers may run."""

    variable: Variable = "MAX_JOBS"
    divided_by_threads: bool = False
    """It starts `variable` ÷ threads of them."""


class Proof(Table):
    """What a built wheel must show beside what is asked of every one."""

    imports: tuple[str, ...] = ()
    """Modules that import on a CPU, in this order: torch before what needs it."""
    forbidden: tuple[str, ...] = ()
    """Words in the build's log that mean another build than this one."""
    kernels: bool = True
    """It carries code for GPUs."""


class Recipe(Table):
    """One wheel."""

    name: Name
    version: Annotated[str, AfterValidator(_version)]
    sdist: Sha256 | None = None
    """Of the source distribution in the package index; None: the folder of the recipe's name."""
    environment: Name | None = None
    """The stack's environment whose torch it is built against; None: it needs no torch."""
    toolkit: Release
    """The CUDA release whose nvcc compiles it; its major version must be torch's."""
    local: Template = ""
    """What its version gets behind a plus, such as cu128torch2.9.1."""
    pins: tuple[str, ...] = ()
    """Distributions that its metadata must require at the exact version it was built against."""
    build: tuple[RequirementText, ...]
    """What the build itself needs beside the compilers, at exact versions."""
    command: tuple[str, ...]
    """Run in the source's folder by the build environment's Python."""
    environ: dict[Variable, Template] = {}
    archs: Archs
    jobs: Jobs = Jobs()
    threads: Variable | None = None
    """The variable that says how many architectures nvcc compiles at a time."""
    guess_mib: Annotated[int, Field(ge=64)]
    """Peak of one compiler for one architecture, until a unit's own was measured."""
    guess_seconds: Annotated[int, Field(ge=1)]
    """CPU time of one compiler, likewise."""
    proof: Proof = Proof()


def names() -> list[str]:
    """The recipes there are."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Recipe:
    """Read `recipes/NAME.toml`. Raises UsageError naming file and field."""
    if name not in names():
        raise UsageError(
            f"there is no recipe {name!r} in wheels/recipes",
            hint=f"recipes there: {', '.join(names())}",
        )
    path = FOLDER / f"{name}.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path.name}: {error}") from error
    found = validated(Recipe, data, path.name)
    if found.name != name:
        raise UsageError(f"{path.name}: name: expected {name!r}, the file's own, got {found.name!r}")
    return found
