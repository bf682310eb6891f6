"""What each task does: select hosts, run the loop, render; returns the exit code.

The loop itself is imported when the logins have begun: that takes as long as they do.
"""

from __future__ import annotations

import dataclasses
import functools
import json as json_module
import os
import shlex
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision.errors import DIFFERENCES, DONE, FAILED, ProvisionError, UsageError, shown
from provision.fleet import each
from provision.inventory import Host
from provision.plan import SCHEMA
from provision.report import Report
from provision.target import Target, lab_spec, target

if TYPE_CHECKING:
    from provision import engine
    from provision.checks.finding import Finding
    from provision.follow import Tell

Names = Sequence[str]
HISTORY = 20
"""Runs that are shown, the latest ones."""


def provision(hosts: Names, groups: Names, *, verbose: bool, accept_new: bool) -> int:
    """Bring hosts to their stack, then check them on the facts of the last probe."""
    report = Report(verbose=verbose)
    stop = threading.Event()

    def do(host: Host) -> int:
        ready = _ready(host, report, start=True, accept_new=accept_new)
        from provision import engine

        seen = engine.provision(ready, functools.partial(report.event, host.name), stop)
        rows = [row for row in _rows(ready, seen) if not _awaited(row, seen)]
        report.findings(host.name, rows)
        report.cost(host.name, ready.transport.cost)
        return _code(rows)

    return each(report, hosts, groups, do, stop=stop)


def plan(
    hosts: Names,
    groups: Names,
    *,
    json: bool,
    verbose: bool,
    output: Path | None,
    accept_new: bool,
) -> int:
    """Show each host's plan, or save one; nothing is changed."""
    report = Report(json=json, verbose=verbose)
    plans: dict[str, Any] = {}

    def do(host: Host) -> int:
        seen = _look(_ready(host, report, accept_new=accept_new), report)
        report.plan(seen.plan, commands=True)
        plans[host.name] = seen.plan.to_data()
        return FAILED if seen.plan.now.blocked else DONE

    code = each(report, hosts, groups, do, plans)
    if json:
        report.data(plans)
    if output and code == DONE:
        try:
            _save(output, plans)
        except ProvisionError as error:
            report.error(error)
            return error.exit_code
        report.say(next(iter(plans)), f"saved to {output}; carry it out: invoke apply {output}")
    return code


def apply(file: Path, *, verbose: bool, wait: bool) -> int:
    """Carry out a saved plan's first round, if planning afresh gives the same."""
    report = Report(verbose=verbose)
    stop = threading.Event()
    try:
        if file.name.startswith("-"):
            raise UsageError("apply takes a plan file", hint="see: invoke --help apply")
        saved = _saved(file)
    except ProvisionError as error:
        report.error(error)
        return error.exit_code

    def do(host: Host) -> int:
        ready = _ready(host, report)
        from provision import engine

        tell = functools.partial(report.event, host.name)
        seen = engine.free(ready, engine.look(ready), tell, wait=wait)
        if seen.plan.fingerprint != saved["fingerprint"]:
            report.differences(host.name, saved, seen.plan)
            return DIFFERENCES
        if not seen.plan.empty:
            seen = engine.apply_saved(ready, seen, tell, stop)
        report.plan(seen.plan)
        return DONE

    return each(report, [saved["host"]], (), do, stop=stop)


def cancel(hosts: Names, groups: Names) -> int:
    """Ask the runs that go on to stop before their next change."""
    report = Report()

    def do(host: Host) -> int:
        ready = _ready(host, report)
        from provision import engine

        run = engine.cancel(ready, engine.look(ready))
        said = f"run {run} stops before its next change" if run else "no run is going on"
        report.say(host.name, said)
        return DONE

    return each(report, hosts, groups, do)


def rollback(
    hosts: Names, groups: Names, *, driver: bool, plan: bool, verbose: bool, wait: bool
) -> int:
    """Bring hosts back to the environments that they had before, or to the driver before."""
    report = Report(verbose=verbose)
    stop = threading.Event()

    def do(host: Host) -> int:
        ready = _ready(host, report)
        from provision import engine

        tell = functools.partial(report.event, host.name)
        seen = engine.free(ready, engine.look(ready), tell, wait=wait)
        if driver:
            _driver_back(ready, seen, report, tell, stop, plan=plan)
        elif plan:
            report.plan(engine.back(ready, seen), commands=True)
        elif not engine.switch_back(ready, seen, tell, stop).plan.empty:
            text = (
                f"it is not as stack {ready.want.stack.name} wants: `invoke provision` mends that"
            )
            report.say(host.name, text, "yellow")
        return DONE

    return each(report, hosts, groups, do, stop=stop)


def _driver_back(
    ready: Target,
    seen: engine.Look,
    report: Report,
    tell: Tell,
    stop: threading.Event,
    *,
    plan: bool,
) -> None:
    from provision import engine
    from provision import rollback as back

    name, stack = ready.host.name, ready.want.stack
    before = dataclasses.replace(ready, want=back.driver(name, ready.want, seen.facts))
    version = before.want.stack.system.driver.version
    report.say(name, f"back to driver {version}", "bold")
    for line in back.too_old(before.want):
        report.say(name, line, "yellow")
    if plan:
        report.plan(engine.look(before).plan, commands=True)
        return
    engine.provision(before, tell, stop)
    if version != stack.system.driver.version:
        report.say(
            name,
            f"stack {stack.name} wants driver {stack.system.driver.version}: `invoke "
            f"provision` goes there again; to stay, give the host a stack with {version}",
            "yellow",
        )


def history(hosts: Names, groups: Names, *, run: str, json: bool) -> int:
    """Show what was done on hosts, as their own journals have it."""
    report = Report(json=json)
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        ready = _ready(host, report)
        from provision import wire
        from provision.history import select

        runs = select(wire.history(ready.transport, HISTORY), run, host.name)
        found[host.name] = [one.to_data() for one in runs]
        if not json:
            report.history(host.name, runs, whole=bool(run))
        return DONE

    code = each(report, hosts, groups, do, found)
    if json:
        report.data(found)
    return code


def verify(hosts: Names, groups: Names, *, json: bool, verbose: bool) -> int:
    """Check hosts; what is awaited or differs ends with code 3."""
    report = Report(json=json, verbose=verbose)
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        ready = _ready(host, report)
        rows = _rows(ready, _look(ready, report))
        report.findings(host.name, rows)
        found[host.name] = [row.to_data() for row in rows]
        return _code(rows)

    code = each(report, hosts, groups, do, found)
    if json:
        report.data(found)
    return code


def facts(hosts: Names, groups: Names, *, json: bool) -> int:
    """Show what the probe sees."""
    report = Report(json=json)
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        seen = _look(_ready(host, report), report)
        found[host.name] = seen.raw
        if not json:
            report.facts(host.name, seen.facts)
        return DONE

    code = each(report, hosts, groups, do, found)
    if json:
        report.data(found)
    return code


def lab_up(hosts: Names, groups: Names, *, fresh: bool) -> int:
    """Make and boot lab hosts."""
    from provision import lab

    report = Report()

    def do(host: Host) -> int:
        lab.up(lab_spec(host), fresh=fresh, say=functools.partial(report.say, host.name))
        report.say(host.name, f"up: invoke lab.ssh --host {host.name}", "green")
        return DONE

    return each(report, hosts, groups, do)


def lab_down(hosts: Names, groups: Names, *, discard: bool) -> int:
    """Shut lab hosts down, also those that no inventory names any more."""
    from provision import lab

    report = Report()
    there = {host.name for host in lab.status()}
    strays = [name for name in hosts if name in there]
    for name in strays:
        lab.down(name, discard=discard)
        report.say(name, "down")

    def do(host: Host) -> int:
        was = lab.down(lab_spec(host).name, discard=discard)
        report.say(host.name, "down" if was else "was not up")
        return DONE

    rest = [name for name in hosts if name not in there]
    return DONE if strays and not rest and not groups else each(report, rest, groups, do)


def lab_status(*, json: bool) -> int:
    """Show the lab hosts."""
    from provision import lab

    report = Report(json=json)
    there = lab.status()
    for host in there:
        state = "running" if host.running else "down"
        report.say(host.name, f"{state}: {host.suite}, {host.hardware} (simulated)")
    if not there:
        report.say("lab", "no host was made yet: invoke lab.up")
    if json:
        report.data(
            [
                {
                    "name": host.name,
                    "running": host.running,
                    "suite": host.suite,
                    "hardware": host.hardware,
                    "port": host.port,
                }
                for host in there
            ]
        )
    return DONE


def lab_ssh(name: str, command: str) -> int:
    """Log in to a lab host, or run one command there; its exit code."""
    from provision import lab

    there = lab.find(name)
    if there is None or not there.running:
        report = Report()
        report.error(ProvisionError(f"{name}: the lab host is not running", hint="invoke lab.up"))
        return FAILED
    words = ["ssh", "-F", str(there.ssh_config), "--", name]
    return subprocess.run([*words, command] if command else words, check=False).returncode


def _ready(host: Host, report: Report, *, start: bool = False, accept_new: bool = False) -> Target:
    say = functools.partial(report.say, host.name) if start else None
    return target(host, start=say, accept_new=accept_new)


def _look(ready: Target, report: Report) -> engine.Look:
    from provision import engine

    seen = engine.look(ready)
    if going_on := engine.going_on(seen):  # what is shown may change at any moment
        report.event(ready.host.name, going_on)
    return seen


def _rows(ready: Target, seen: engine.Look) -> list[Finding]:
    from provision import checks

    return checks.check(ready.want, seen.facts, seen.plan)


def _code(rows: Sequence[Finding]) -> int:
    return DONE if all(row.ok for row in rows) else DIFFERENCES


def _awaited(row: Finding, seen: engine.Look) -> bool:
    return any(row.subject == change.subject for change in seen.plan.awaited)


def _save(file: Path, plans: Mapping[str, Any]) -> None:
    if len(plans) > 1:
        raise UsageError("--output takes the plan of one host", hint="name one --host")
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise UsageError(f"{file}: can't be written: {error.strerror}") from error
    with open(handle, "w", encoding="utf-8") as out:  # noqa: PTH123 - a handle, for its mode
        out.write(
            json_module.dumps(next(iter(plans.values())), indent=2, ensure_ascii=False) + "\n"
        )


def _saved(file: Path) -> dict[str, Any]:
    try:
        data = json_module.loads(file.read_text(encoding="utf-8"))
        if not _is_plan(data):
            raise ValueError("it holds no plan")
        if data["schema"] != SCHEMA:
            raise ValueError(f"it is a plan of schema {shown(data['schema'])}, expected {SCHEMA}")
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{file}: can't be read as a plan: {error}",
            hint=f"make one: invoke plan --output {shlex.quote(str(file))}",
        ) from error
    plan: dict[str, Any] = data
    return plan


def _is_plan(data: object) -> bool:
    match data:
        case {"schema": int(), "host": str(), "fingerprint": str(), "rounds": [*rounds]}:
            return all(isinstance(one, list) and all(map(_is_change, one)) for one in rounds)
    return False


def _is_change(data: object) -> bool:
    match data:
        case {"id": str(), "actions": [*_]}:
            return True
    return False
