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
    ProvisionError,
    UsageError,
)
from provision.fleet import each
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
    budget: str,
    gate: bool,
    json: bool,
    verbose: bool,
) -> int:
    """Build one recipe's wheel on one host, unless the wheelhouse has it."""
    report = Report(json=json, verbose=verbose)
    stop = Stop()
    found: dict[str, Any] = {}
    try:
        if not name:
            raise UsageError("build takes --recipe", hint=f"recipes: {', '.join(recipe.names())}")
        wish = Wish(recipe=recipe.load(name), budget=_bytes(budget), gate=gate, force=force)
        known = inventory.load()
        if len(hosts) > 1:
            raise UsageError("a wheel is built on one host", hint="name one: --host NAME")
    except ProvisionError as error:
        report.error(error)
        return error.exit_code

    def do(host: Host) -> int:
        ready = get_ready(host, report, start=True, compared=False)
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
        report.plan(planned.plan, commands=plan or verbose)
        if plan:
            return FAILED if planned.plan.now.blocked else DONE
        made = build(ready, seen, planned, tell, stop)
        found[host.name]["made"] = made.model_dump(mode="json")
        report.say(host.name, f"the wheelhouse has {made.file}, sha256 {made.sha256}", "green")
        return DONE

    chosen = [*hosts] or [known.builder or known.default]
    code = each(report, chosen, (), do, found, stop=stop)
    if json:
        report.data(found)
    return code


def _whole(report: Report, wheel: Manifest) -> bool:
    """Whether a wheel is what its manifest says; where it is not, why it is built anew."""
    try:
        wheelhouse.content([wheel], wheel.sha256)
    except ProvisionError as error:
        report.say(wheel.file, f"{error.what}: it is built anew", "yellow")
        return False
    return True


def awaited(hosts: Sequence[str], groups: Sequence[str], *, verbose: bool) -> int:
    """Build what the stacks of these hosts want and the wheelhouse has not."""
    report = Report(verbose=verbose)
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
        report.error(error)
        return error.exit_code
    for name in dict.fromkeys(wanted):
        code = make(
            name, (), plan=False, force=False, budget="", gate=True, json=False, verbose=verbose
        )
        if code != DONE:
            return code
    return DONE


def _bytes(text: str) -> int | None:
    if not text:
        return None
    match = SIZE.fullmatch(text.strip())
    if not match or not (size := float(match[1])):
        raise UsageError(f"--budget {text!r}: expected a size such as 64GiB or 900MiB")
    return round(size * (2**30 if match[2].lower() == "gib" else 2**20))


def lock_recipe(name: str, *, check: bool) -> int:
    """Lock a recipe's build environment, or hold the lock to the recipe; '' for all recipes."""
    report = Report()
    code = DONE
    try:
        names = [name] if name else recipe.names()
        for one in map(recipe.load, names):
            if one.build.interpreter:
                continue
            where = f"recipe {one.name}"
            if check:
                rows = lock.check(one)
                for row in rows:
                    report.say(where, f"out of date: {row.field}: {row.reason}", "red")
                if rows:
                    report.say(where, f"mend it: invoke lock --recipe {one.name}")
                    code = DIFFERENCES
                else:
                    report.say(where, "locked as it asks", "green")
                continue
            changed = lock.make(one, functools.partial(report.say, where, style="dim"))
            what = f"{lock.file(one).name} is written" if changed else "nothing to do"
            report.say(where, what, "green")
    except ProvisionError as error:
        report.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        report.error(ProvisionError("interrupted", hint="the lock at hand is as it was"))
        return INTERRUPTED
    return code


def listed(*, json: bool) -> int:
    """Show what was built."""
    report = Report(json=json)
    try:
        wheels = wheelhouse.load()
    except ProvisionError as error:
        report.error(error)
        return error.exit_code
    for one in wheels:
        archs_ = ", ".join(one.archs)
        report.say(
            one.file, f"{one.size / 1e6:.1f} MB, for {archs_}, glibc {one.glibc}; {one.sha256}"
        )
    if not wheels and not json:
        report.say("wheelhouse", f"{wheelhouse.FOLDER} holds no wheel yet")
    if json:
        report.data([one.model_dump(mode="json") for one in wheels])
    return DONE


def verify() -> int:
    """Hold every wheel to its manifest."""
    report = Report()
    code = DONE
    try:
        wheels = wheelhouse.load()
        for one in wheels:
            try:
                wheelhouse.content(wheels, one.sha256)
                report.say(one.file, "as its manifest says", "green")
            except ProvisionError as error:
                report.error(error)
                code = DIFFERENCES
    except ProvisionError as error:
        report.error(error)
        return error.exit_code
    return code


def draw(wheel: str, output: Path | None) -> int:
    """Write the picture of how a wheel was built; beside it where no other file is named."""
    report = Report()
    try:
        found = provenance.load(wheel, wheelhouse.FOLDER)
        path = output or wheelhouse.FOLDER / f"{found.wheel.file}.html"
        try:
            path.write_text(picture(found), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--output {path}: can't be written: {error.strerror}") from error
    except ProvisionError as error:
        report.error(error)
        return error.exit_code
    report.say(found.wheel.file, f"how it was built: {path}", "green")
    return DONE


def prune(*, plan: bool) -> int:
    """Remove wheels that no stack's lock takes any more, with what stands beside them."""
    report = Report()
    try:
        wheels = wheelhouse.load()
        kept = wheelhouse.wanted(wheels)
    except ProvisionError as error:
        report.error(error)
        return error.exit_code
    for one in wheels:
        if one in kept:
            continue
        report.say(one.file, "would go" if plan else "removed", "yellow")
        if not plan:
            for path in wheelhouse.FOLDER.glob(f"{one.file}*"):
                path.unlink()
    if not plan and wheels:
        index.write(wheelhouse.FOLDER)
    return DONE


def push(hosts: Sequence[str], groups: Sequence[str]) -> int:
    """Copy the wheels that hosts' stacks want to the hosts, each once, by hash."""
    report = Report()

    def do(host: Host) -> int:
        ready = get_ready(host, report, compared=False)
        wheels = wheelhouse.wanted(ready.want.wheelhouse, [host.stack])
        lacking = set(wire.lacking(ready.transport, [one.sha256 for one in wheels]))
        for one in wheels:
            if one.sha256 in lacking:
                wire.put(ready.transport, one.sha256, wheelhouse.content(wheels, one.sha256))
            said = "copied" if one.sha256 in lacking else "there already"
            report.say(host.name, f"{one.file}: {said}")
        return DONE

    return each(report, hosts, groups, do)
