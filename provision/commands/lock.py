"""What `lock` does: choose locks, resolve or check them, show what moves; returns the exit code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from packaging.utils import canonicalize_name

from provision import stack as stacks
from provision.errors import DIFFERENCES, DONE, INTERRUPTED, ProvisionError, UsageError
from provision.fleet import refused
from provision.locking import difference
from provision.locking.check import Stale, stale
from provision.locking.inputs import Inputs, inputs, meant
from provision.locking.merge import minor
from provision.locking.text import Pin, read, write
from provision.report import Report
from provision.stack import Stack

Lock = tuple[Stack, str]
"""A stack and the name of one of its environments."""


More = Callable[[Report], tuple[dict[str, Any], int]]
"""Looks at other locks: says what is wrong with them, and gives that as data and an exit code."""


def lock(
    stack: str,
    environment: str,
    upgrade: Sequence[str],
    *,
    check: bool,
    json: bool,
    more: Mapping[str, More] | None = None,
) -> int:
    """Make the locks of one stack or all, or with `check` only hold them to their stacks.

    `more`: what else is looked at then, by its name in the data.
    """
    report = Report(json=json)
    found: dict[str, dict[str, Any]] = {}
    code = DONE
    try:
        chosen = _chosen(stack, environment)
        if upgrade and check:
            raise UsageError("--check resolves nothing: --upgrade has no meaning with it")
        moving = _moving(chosen, upgrade)
        for one, name in chosen:
            do = _hold if check else functools.partial(_make, moving=moving)
            entry = found.setdefault(one.name, {})
            try:
                entry[name], ended = do(report, one, name)
            except (ProvisionError, OSError) as reason:
                error = _told(one, name, reason)
                report.error(error)
                entry[name] = {"error": error.what, "hint": error.hint}
                ended = error.exit_code
            code = code or ended
        for name, look in (more or {}).items():
            found[name], ended = look(report)
            code = code or ended
    except ProvisionError as error:
        return refused(report, error, json=json)
    except KeyboardInterrupt:
        report.error(ProvisionError("interrupted", hint="the lock at hand is as it was"))
        return INTERRUPTED
    if json:
        report.data(found)
    return code


def _chosen(stack: str, environment: str) -> list[Lock]:
    loaded = [stacks.load(name) for name in ([stack] if stack else stacks.names())]
    chosen = [
        (one, name) for one in loaded for name in one.environment if environment in ("", name)
    ]
    if not chosen:
        there = sorted({name for one in loaded for name in one.environment})
        whose = f"stack {stack} has" if stack else "the stacks have"
        raise UsageError(
            f"{whose} no environment {environment!r}" if environment else f"{whose} no environment",
            hint=f"environments there: {', '.join(there)}" if there else "there is nothing to lock",
        )
    return chosen


def _moving(chosen: Iterable[Lock], upgrade: Sequence[str]) -> set[str]:
    """The distributions to be upgraded, each held by one of the locks."""
    held = {pin.name for one, name in chosen for pin in _pins(_text(one, name))}
    moving = {str(canonicalize_name(name)): name for name in upgrade}
    for name, given in moving.items():
        if name not in held:
            raise UsageError(
                f"--upgrade {given}: no lock of those asked for holds it",
                hint="a new requirement is written into the stack; then: invoke lock",
            )
    return set(moving)


def _hold(report: Report, one: Stack, name: str) -> tuple[dict[str, Any], int]:
    """Say whether a lock is its stack's; offline."""
    asked = inputs(one, name)
    file = stacks.lock_file(one.name, name)
    rows = (
        stale(asked, file.read_text(encoding="utf-8"))
        if file.is_file()
        else (Stale(field="lock", reason=f"there is no {file.name}"),)
    )
    for row in rows:
        report.say(_where(one, name), f"out of date: {row.field}: {row.reason}", "red")
    if rows:
        mend = f"mend it: invoke lock --stack {one.name} --environment {name}"
        report.say(_where(one, name), mend)
    else:
        report.say(_where(one, name), f"as its stack asks, {_for(asked)}", "green")
    data = [{"field": row.field, "reason": row.reason} for row in rows]
    return {"stale": data}, DIFFERENCES if rows else DONE


def _make(report: Report, one: Stack, name: str, *, moving: set[str]) -> tuple[dict[str, Any], int]:
    """Resolve, show what moves, and write."""
    from provision.locking import uv

    asked = inputs(one, name)
    say = functools.partial(report.say, _where(one, name))
    for text in one.environment[name].requirements:
        if meant(text) != text:
            say(f"{text} is read as {meant(text)}: the whole series, as Numba says it")
    file = stacks.lock_file(one.name, name)
    before = _text(one, name)
    old = _pins(before)
    if before and not old:
        say(f"{file.name} can't be read: it is made without regard to it")
    kept = [pin for pin in old if pin.name not in moving]
    subject = f"stack {one.name}: environment {name}"
    new = uv.resolve(subject, asked, kept, functools.partial(say, style="dim"))
    after = write(asked.header, new)
    moves, rehashed = difference.moves(old, new), difference.rehashed(old, new)
    for move in moves if old else ():  # a first lock's pins would all be new
        say(move.line)
    for pin in rehashed:
        say(f"{pin}: other files at the same version")
    if before == after:
        say(f"nothing to do: {len(new)} pins {_for(asked)}", "green")
    else:
        uv.write(file, after)
        say(f"{file.name} is written: {len(new)} pins {_for(asked)}", "green")
    return {
        "written": before != after,
        "moves": [{"name": m.name, "before": m.before, "after": m.after} for m in moves],
        "rehashed": rehashed,
    }, DONE


def _told(one: Stack, name: str, reason: ProvisionError | OSError) -> ProvisionError:
    if isinstance(reason, ProvisionError):
        return reason
    return ProvisionError(f"stack {one.name}: environment {name}: {reason}")


def _where(one: Stack, name: str) -> str:
    return f"{one.name}.{name}"


def _for(asked: Inputs) -> str:
    return f"for Python {', '.join(minor(python) for python in asked.pythons)}"


def _text(one: Stack, name: str) -> str:
    """A lock's text, '' where there is none yet."""
    file = stacks.lock_file(one.name, name)
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _pins(text: str) -> tuple[Pin, ...]:
    """A lock's pins; none where its text is damaged: making it anew mends that."""
    try:
        return read(text)
    except ValueError:
        return ()
