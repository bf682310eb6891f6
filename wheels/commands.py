"""What the build tasks do: choose, build, say how it went; each returns the exit code."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision import engine, inventory, stack, wheelhouse, wire
from provision.commands.hosts import get_ready
from provision.errors import (
    DIFFERENCES,
    DONE,
    FAILED,
    INTERRUPTED,
    USAGE,
    ProvisionError,
    UsageError,
)
from provision.fleet import each, failure, refused
from provision.inventory import Host
from provision.report import Report
from provision.stop import Stop
from provision.wheelhouse import Manifest
from wheels import describe, index, lock, provenance, recipe
from wheels.build import Wish, archs, build, heard, prepare
from wheels.picture import picture

SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) ?(GiB|MiB)", re.ASCII | re.IGNORECASE)


def make(
    name: str,
    hosts: Sequence[str],
    *,
    plan: bool,
    force: bool,
    budget: str | None,
    gate: bool,
    json: bool,
    verbose: bool,
) -> int:
    """Build one recipe's wheel on one host, unless the wheelhouse has it."""
    report = Report(json=json, verbose=verbose)
    found, code = _make(report, name, hosts, plan=plan, force=force, budget=budget, gate=gate)
    if json:
        report.data(found)
    return code


def _make(
    report: Report,
    name: str,
    hosts: Sequence[str] = (),
    *,
    plan: bool = False,
    force: bool = False,
    budget: str | None = None,
    gate: bool = True,
) -> tuple[dict[str, Any], int]:
    """The same; returns the data and the exit code."""
    stop = Stop()
    found: dict[str, Any] = {}
    try:
        if not name:
            raise UsageError("build takes --recipe", hint=f"recipes: {', '.join(recipe.names())}")
        wish = Wish(recipe=recipe.load(name), budget=_bytes(budget), gate=gate, force=force)
        known = inventory.load()
        if len(hosts) > 1:
            raise UsageError("a wheel is built on one host", hint="name one: --host NAME")
        built = wheelhouse.load(first=True)
    except ProvisionError as error:
        report.error(error)
        return failure(error), error.exit_code

    def do(host: Host) -> int:
        ready = get_ready(host, report, start=True, compared=False, wheels=built)
        tell = heard(functools.partial(report.event, host.name))
        seen = engine.look(ready)
        if not plan:
            seen = engine.free(ready, seen, tell, wait=True)
        planned = prepare(wish, ready, seen, archs(wish.recipe, known, ready, seen))
        found[host.name] = describe.data(planned)
        for line in describe.lines(planned):
            report.say(host.name, line)
        if planned.there and not force and _whole(report, planned.there):
            report.say(
                host.name, f"nothing to do: the wheelhouse has {planned.there.file}", "green"
            )
            return DONE
        report.plan(planned.plan, commands=plan or report.verbose)
        if plan and (blocked := planned.plan.now.blocked):
            found[host.name] |= {"error": blocked[0].blocked, "hint": blocked[0].hint}
            return FAILED
        if plan:
            return DONE
        made = build(ready, seen, planned, tell, stop)
        found[host.name]["made"] = made.model_dump(mode="json")
        report.say(host.name, f"the wheelhouse has {made.file}, sha256 {made.sha256}", "green")
        return DONE

    chosen = [*hosts] or [known.builder or known.default]
    return found, each(report, chosen, (), do, found, stop=None if plan else stop)


def _whole(report: Report, wheel: Manifest) -> bool:
    """Whether a wheel is what its manifest says; where it is not, why it is built anew.

    Raises UsageError for one that can't be read: it may be whole.
    """
    try:
        wheelhouse.content([wheel], wheel.sha256)
    except UsageError:
        raise
    except ProvisionError as error:
        report.say(wheel.file, f"{error.what}: it is built anew", "yellow")
        return False
    return True


def awaited(hosts: Sequence[str], groups: Sequence[str], *, json: bool, verbose: bool) -> int:
    """Build what the stacks of these hosts want and the wheelhouse has not.

    With `json` there is data of a build only where it failed: else that of what comes then.
    """
    report = Report(json=json, verbose=verbose)
    try:
        chosen = inventory.load().select(hosts, groups)
        wanted = [
            canonicalize_name(Requirement(text).name)
            for name in dict.fromkeys(host.stack for host in chosen)
            for environment in stack.load(name).environment.values()
            for text in environment.wheels
        ]
        if lacking := [name for name in wanted if name not in recipe.names()]:
            raise UsageError(f"no recipe builds {lacking[0]}", hint="recipes: wheels/recipes")
    except ProvisionError as error:
        return refused(report, error, json=json)
    for name in dict.fromkeys(wanted):
        found, code = _make(report, name)
        if code != DONE:
            if json:
                report.data(found)
            return code
    return DONE


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    match = SIZE.fullmatch(text.strip())
    if not match or not (size := float(match[1])):
        raise UsageError(f"--budget {text!r}: expected a size such as 64GiB or 900MiB")
    return round(size * (2**30 if match[2].lower() == "gib" else 2**20))


def lock_recipe(name: str, beside: Sequence[str] = (), *, check: bool, json: bool) -> int:
    """Lock a recipe's build environment, or hold the lock to the recipe.

    `beside`: other options that were given, of which it takes none.
    """
    report = Report(json=json)
    if beside:
        error = UsageError(
            f"{beside[0]} has no meaning with --recipe",
            hint="a recipe's lock keeps to its own stack's; versions of its own are pinned in its "
            "`build.requirements`",
        )
        return refused(report, error, json=json)
    try:
        found, code = _lock(report, name, check=check)
    except KeyboardInterrupt:
        report.error(ProvisionError("interrupted", hint="the lock at hand is as it was"))
        return INTERRUPTED
    if json:
        report.data({"recipes": {name: found}})
    return code


def hold_recipes(report: Report) -> tuple[dict[str, Any], int]:
    """Hold the lock of every recipe to it: what is wrong, and the exit code."""
    rows = {name: _lock(report, name, check=True) for name in recipe.names()}
    code = next((code for _, code in rows.values() if code), DONE)
    return {name: found for name, (found, _) in rows.items()}, code


def _lock(report: Report, name: str, *, check: bool) -> tuple[dict[str, Any], int]:
    say = functools.partial(report.say, f"recipe {name}")
    try:
        one = recipe.load(name)
        if one.build.interpreter:
            say(f"nothing to lock: it is built in {one.build.interpreter} of the build host")
            return {"stale": []} if check else {"written": False}, DONE
        if not check:
            changed = lock.make(one, functools.partial(say, style="dim"))
            what = f"{lock.file(one).name} is written" if changed else "nothing to do"
            say(what, "green")
            return {"written": changed}, DONE
        rows = lock.check(one)
    except ProvisionError as error:
        report.error(error)
        return failure(error), error.exit_code
    for row in rows:
        say(f"out of date: {row.field}: {row.reason}", "red")
    if rows:
        say(f"mend it: invoke lock --recipe {name}")
    else:
        say("locked as it asks", "green")
    data = [{"field": row.field, "reason": row.reason} for row in rows]
    return {"stale": data}, DIFFERENCES if rows else DONE


def listed(*, json: bool) -> int:
    """Show what was built."""
    report = Report(json=json)
    try:
        wheels, mistakes = wheelhouse.look(wheelhouse.FOLDER)
    except UsageError as error:
        return refused(report, error, json=json)
    for one in wheels:
        archs_ = ", ".join(one.archs)
        report.say(
            one.file, f"{one.size / 1e6:.1f} MB, for {archs_}, glibc {one.glibc}; {one.sha256}"
        )
    for mistake in mistakes.values():
        report.error(mistake)
    strays = wheelhouse.strays(wheelhouse.FOLDER)
    for name in strays:
        report.say(name, "has no manifest and does not count: see `invoke wheels.verify`", "yellow")
    if not wheels and not mistakes:
        _say_empty(report)
    if json:
        wrong = [{"file": name, **failure(mistake)} for name, mistake in mistakes.items()]
        report.data([*(one.model_dump(mode="json") for one in wheels), *wrong])
    return USAGE if mistakes else DONE


def _say_empty(report: Report) -> None:
    only = " with a manifest" if wheelhouse.strays(wheelhouse.FOLDER) else ""
    report.say("wheelhouse", f"{wheelhouse.FOLDER} holds no wheel{only} yet")


def verify(*, json: bool) -> int:
    """Hold every wheel to its manifest."""
    report = Report(json=json)
    try:
        wheels, mistakes = wheelhouse.look(wheelhouse.FOLDER)
    except UsageError as error:
        return refused(report, error, json=json)
    found: dict[str, Any] = {}
    wrong: dict[str, ProvisionError] = {**mistakes}
    for name in wheelhouse.strays(wheelhouse.FOLDER):
        wrong[name] = ProvisionError(
            f"{wheelhouse.FOLDER / name}: has no manifest, and does not count",
            hint="build it with `invoke build`, or take it away",
        )
    if not wheels and not mistakes:
        _say_empty(report)
    for one in wheels:
        found[one.file] = {"sha256": one.sha256}
        try:
            wheelhouse.content([one], one.sha256)
            report.say(one.file, "as its manifest says", "green")
        except ProvisionError as error:
            wrong[one.file] = error
    for name, mistake in wrong.items():
        report.error(mistake)
        found[name] = {**found.get(name, {}), **failure(mistake)}
    if json:
        report.data(found)
    return DIFFERENCES if wrong else DONE


def draw(wheel: str, output: Path | None) -> int:
    """Write the picture of how a wheel was built; beside it where no other file is named."""
    report = Report()
    try:
        source = provenance.place(wheel, wheelhouse.FOLDER)
        found = provenance.load(source)
        path = output or source.with_suffix(".html")
        try:
            path.write_text(picture(found), encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"{path}: can't be written: {error.strerror}", hint="another place: --output FILE"
            ) from error
    except ProvisionError as error:
        report.error(error)
        return error.exit_code
    report.say(found.wheel.file, f"how it was built: {path}", "green")
    return DONE


def prune(*, plan: bool, yes: bool, json: bool) -> int:
    """Remove wheels that no stack's lock takes, with what stands beside them.

    They are shown first; unless `yes` says so, the user is asked.
    """
    report = Report(json=json)
    found: dict[str, Any] = {}
    code = DONE
    try:
        wheels = wheelhouse.load()
        kept = wheelhouse.wanted(wheels)
        gone = [one for one in wheels if one not in kept]
        found = {"unwanted": [one.file for one in gone], "removed": []}
        for one in gone:
            said = f"{one.size / 1e6:.1f} MB: no stack's lock takes it"
            report.say(one.file, f"would go, {said}", "yellow")
        if not wheels:
            _say_empty(report)
        elif not gone:
            report.say(
                "wheelhouse", "nothing to do: every wheel is one that a stack takes", "green"
            )
        elif not plan and (yes or _agreed(report)):
            try:
                for one in gone:
                    _remove(one)
                    found["removed"].append(one.file)
                    report.say(one.file, "removed", "yellow")
            finally:
                index.write(wheelhouse.FOLDER)
    except (ProvisionError, OSError) as raised:
        error = wheelhouse.unchanged(raised) if isinstance(raised, OSError) else raised
        report.error(error)
        found, code = found | failure(error), error.exit_code
    if json:
        report.data(found)
    return code


def _remove(wheel: Manifest) -> None:
    """Remove a wheel and what stands beside it. Raises OSError.

    Its manifest last: without one nobody would find again what an error has left.
    """
    for suffix in (".html", provenance.SUFFIX, "", ".json"):
        (wheelhouse.FOLDER / f"{wheel.file}{suffix}").unlink(missing_ok=True)


def _agreed(report: Report) -> bool:
    """Whether the user wants it. Raises UsageError where nobody can be asked."""
    try:
        return report.ask("remove them? [y]es or [n]o: [n] ").strip().lower() in ("y", "yes")
    except KeyboardInterrupt:
        return False
    except EOFError as error:
        raise UsageError(
            "nobody is here to be asked whether they shall go; nothing was removed",
            hint="--yes removes them, --plan only shows them",
        ) from error


def push(hosts: Sequence[str], groups: Sequence[str], *, json: bool) -> int:
    """Copy the wheels that hosts' stacks want to the hosts, each once, by hash."""
    report = Report(json=json)
    found: dict[str, Any] = {}
    try:
        built = wheelhouse.load()
    except UsageError as error:
        return refused(report, error, json=json)

    def do(host: Host) -> int:
        ready = get_ready(host, report, compared=False, wheels=built)
        wheels = wheelhouse.wanted(built, [host.stack])
        lacking = set(wire.lacking(ready.transport, [one.sha256 for one in wheels]))
        done = found[host.name] = {"copied": [], "there": []}
        for one in wheels:
            if one.sha256 in lacking:
                wire.put(ready.transport, one.sha256, wheelhouse.content(wheels, one.sha256))
            name, said = (
                ("copied", "copied") if one.sha256 in lacking else ("there", "there already")
            )
            done[name].append(one.file)
            report.say(host.name, f"{one.file}: {said}")
        if not wheels:
            said = f"nothing to do: the wheelhouse has no wheel that stack {host.stack} takes"
            report.say(host.name, said, "green")
        return DONE

    code = each(report, hosts, groups, do, found)
    if json:
        report.data(found)
    return code
