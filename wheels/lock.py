"""The lock of a recipe's build environment: what it is built against, at the stack's versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from provision import stack as stacks
from provision import tables
from provision.errors import UsageError
from provision.locking import text
from provision.locking.check import Stale, stale
from provision.locking.inputs import Inputs
from provision.stack import Environment, Lock, Stack
from wheels.recipe import FOLDER, Recipe


def stack_of(recipe: Recipe) -> Stack:
    """The stack that it is built for. Raises UsageError naming the recipe where there is none."""
    try:
        return stacks.load(recipe.stack)
    except UsageError as error:
        raise UsageError(f"{recipe.name}.toml: stack: {error.what}", hint=error.hint) from error


def versions(recipe: Recipe, stack: Stack) -> dict[str, str]:
    """The exact versions that the wheel is built against, by distribution.

    Raises UsageError where the stack's lock has none.
    """
    environment = stack.environment.get(recipe.environment)
    if environment is None:
        raise UsageError(
            f"{recipe.name}.toml: environment: stack {stack.name} has no {recipe.environment!r}",
            hint=f"environments there: {', '.join(stack.environment) or 'none'}",
        )
    if not set(recipe.against) - set(recipe.versions):
        return dict(recipe.versions)
    locked = stack.locks[recipe.environment].versions(environment.pythons[0])
    lacking = [name for name in recipe.against if name not in locked | recipe.versions]
    if lacking:
        raise UsageError(
            f"{recipe.name}.toml: against: the lock of {stack.name}.{recipe.environment} "
            f"has no {lacking[0]}"
        )
    return {name: recipe.versions.get(name, locked.get(name, "")) for name in recipe.against}


def inputs(recipe: Recipe, stack: Stack) -> Inputs:
    """What the lock is made of."""
    exact = [f"{name}=={version}" for name, version in versions(recipe, stack).items()]
    environment = Environment(
        python=recipe.build.python,
        requirements=(*exact, *recipe.build.requirements),
        platform=stack.environment[recipe.environment].platform,
    )
    return Inputs(
        requirements=environment.requirements,
        python=environment.python,
        pythons=environment.pythons,
        platform=environment.platform,
        date=stack.date,
    )


def file(recipe: Recipe) -> Path:
    """Where it is kept."""
    return FOLDER / "locks" / f"{recipe.name}.txt"


def load(recipe: Recipe) -> Lock:
    """Read it. Raises UsageError where it is missing or damaged."""
    mend = f"make it: invoke lock --recipe {recipe.name}"
    path = file(recipe)
    if not path.is_file():
        raise UsageError(f"recipe {recipe.name} has no lock {path.name}", hint=mend)
    lock = Lock(text=tables.text(path, hint=mend))
    try:
        _ = lock.pins
    except ValueError as error:
        raise UsageError(f"{path.name}: {error}", hint=mend) from error
    return lock


def check(recipe: Recipe) -> tuple[Stale, ...]:
    """All that keeps the lock from being its recipe's."""
    return stale(inputs(recipe, stack_of(recipe)), load(recipe).text)


def make(recipe: Recipe, say: Callable[[str], None]) -> bool:
    """Resolve and write it, keeping to the stack's own lock; whether it changed."""
    from provision.locking import uv

    stack = stack_of(recipe)
    asked = inputs(recipe, stack)
    path = file(recipe)
    try:
        before = load(recipe).text
    except UsageError:  # missing, or damaged: it is made anew
        before = ""
    kept = [*(text.read(before) if before else ()), *stack.locks[recipe.environment].pins]
    after = text.write(asked.header, uv.resolve(f"recipe {recipe.name}", asked, kept, say))
    if after != before:
        uv.write(path, after)
    return after != before
