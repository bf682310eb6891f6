"""Runs on hosts, going on or past: stopping, looking up, going back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from provision.commands.account import accounted
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
    from provision.plan import Plan

Names = Sequence[str]
HISTORY = 20
"""Runs that are shown, the latest ones."""


def cancel(hosts: Names, groups: Names, *, json: bool) -> int:
    """Ask the runs that go on to stop before their next change."""
    report = Report(json=json)
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        ready = get_ready(host, report, compared=False, wheels=())
        from provision import engine

        run = engine.cancel(ready, engine.look(ready))
        said = f"run {run} stops before its next change" if run else "no run is going on"
        report.say(host.name, said)
        found[host.name] = {"cancelled": run}
        return DONE

    code = each(report, hosts, groups, do, found)
    if json:
        report.data(found)
    return code


def history(hosts: Names, groups: Names, *, run: str, json: bool) -> int:
    """Show what was done on hosts, as their own journals have it."""
    report = Report(json=json)
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        ready = get_ready(host, report, compared=False, wheels=())
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
    hosts: Names, groups: Names, *, driver: bool, plan: bool, json: bool, verbose: bool, wait: bool
) -> int:
    """Bring hosts back to the environments that they had before, or to the driver before."""
    report = Report(json=json, verbose=verbose)
    stop = Stop()
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        with accounted(report, host.name, found) as account:
            ready = get_ready(host, report, compared=False)
            from provision import engine

            seen = engine.free(ready, engine.look(ready), account.tell, wait=wait)
            if driver:
                left = _driver_back(ready, seen, report, account.tell, stop, plan=plan)
            elif plan:
                left = engine.back(ready)
            else:
                left = engine.switch_back(ready, seen, account.tell, stop).plan
            account.more["plan"] = left.to_data()
            if plan:
                report.plan(left, commands=True)
            elif not (driver or left.empty):
                text = f"it is not as stack {left.stack} wants: `invoke provision` mends that"
                report.say(host.name, text, "yellow")
            return DONE

    code = each(report, hosts, groups, do, found, stop=None if plan else stop)
    if json:
        report.data(found)
    return code


def _driver_back(
    ready: Target,
    seen: engine.Look,
    report: Report,
    tell: Tell,
    stop: Stop,
    *,
    plan: bool,
) -> Plan:
    """Go back to the driver before, or with `plan` only look: what is left to do."""
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
        return engine.look(before).plan
    left = engine.provision(before, tell, stop).plan
    if version != stack.system.driver.version:
        report.say(
            name,
            f"stack {stack.name} wants driver {stack.system.driver.version}: `invoke "
            f"provision` goes there again; to stay, give the host a stack with {version}",
            "yellow",
        )
    return left
