"""Runs on hosts, going on or past: stopping, looking up, going back."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from provision.commands.hosts import get_ready
from provision.errors import DONE
from provision.fleet import each
from provision.inventory import Host
from provision.report import Report
from provision.stop import Stop
from provision.target import Target

if TYPE_CHECKING:
    from provision import engine
    from provision.follow import Tell

Names = Sequence[str]
HISTORY = 20
"""Runs that are shown, the latest ones."""


def cancel(hosts: Names, groups: Names) -> int:
    """Ask the runs that go on to stop before their next change."""
    report = Report()

    def do(host: Host) -> int:
        ready = get_ready(host, report)
        from provision import engine

        run = engine.cancel(ready, engine.look(ready))
        said = f"run {run} stops before its next change" if run else "no run is going on"
        report.say(host.name, said)
        return DONE

    return each(report, hosts, groups, do)


def history(hosts: Names, groups: Names, *, run: str, json: bool) -> int:
    """Show what was done on hosts, as their own journals have it."""
    report = Report(json=json)
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        ready = get_ready(host, report)
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


def rollback(
    hosts: Names, groups: Names, *, driver: bool, plan: bool, verbose: bool, wait: bool
) -> int:
    """Bring hosts back to the environments that they had before, or to the driver before."""
    report = Report(verbose=verbose)
    stop = Stop()

    def do(host: Host) -> int:
        ready = get_ready(host, report)
        from provision import engine

        tell = functools.partial(report.event, host.name)
        seen = engine.free(ready, engine.look(ready), tell, wait=wait)
        if driver:
            _driver_back(ready, seen, report, tell, stop, plan=plan)
        elif plan:
            report.plan(engine.back(ready), commands=True)
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
    stop: Stop,
    *,
    plan: bool,
) -> None:
    from provision import engine
    from provision import rollback as back
    from provision.compatibility import toolkits

    name, stack = ready.host.name, ready.want.stack
    before = dataclasses.replace(ready, want=back.driver(name, ready.want, seen.facts))
    version = before.want.stack.system.driver.version
    report.say(name, f"back to driver {version}", "bold")
    for row in toolkits.driver(before.want, None):
        if row.reason:
            report.say(name, f"{row.left}: {row.reason}", "yellow")
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
