"""Bringing hosts to their stack, and looking at them.

The loop itself is imported when the logins have begun: that takes as long as they do.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision.commands import saved_plan
from provision.commands.account import accounted
from provision.errors import DIFFERENCES, DONE, FAILED, ProvisionError, UsageError
from provision.fleet import each, refused
from provision.inventory import Host
from provision.report import Report
from provision.stop import Stop
from provision.target import Target, target

if TYPE_CHECKING:
    from provision import engine
    from provision.checks.finding import Finding
    from provision.facts import Unknown
    from provision.facts.trials import Trials
    from provision.wheelhouse import Manifest

Names = Sequence[str]


def provision(hosts: Names, groups: Names, *, json: bool, verbose: bool, accept_new: bool) -> int:
    """Bring hosts to their stack, then check them on the facts of the last probe."""
    report = Report(json=json, verbose=verbose)
    stop = Stop()
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        with accounted(report, host.name, found) as account:
            ready = get_ready(host, report, start=True, accept_new=accept_new)
            from provision import engine

            seen = engine.provision(ready, account.tell, stop)
            rows = [row for row in _rows(ready, seen) if not _awaited(row, seen)]
            account.more["awaited"] = [change.subject for change in seen.plan.awaited]
            account.more["findings"] = [row.to_data() for row in rows]
            report.findings(host.name, rows)
            report.cost(host.name, ready.transport.cost)
            return _code(rows)

    code = each(report, hosts, groups, do, found, stop=stop)
    if json:
        report.data(found)
    return code


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
        seen = look(get_ready(host, report, accept_new=accept_new, compared=False), report)
        from provision import engine

        moment = engine.going_on(seen) is not None
        if moment:
            report.say(host.name, "what follows is a moment of that run, not to act on", "yellow")
        report.plan(seen.plan, commands=True)
        plans[host.name] = seen.plan.to_data()
        # What a run is in the middle of can't be planned, which is no failure; nor is it saved.
        blocked = any(one.blocked for one in seen.plan.rounds)
        return FAILED if blocked and (output or not moment) else DONE

    code = each(report, hosts, groups, do, plans)
    if json:
        report.data(plans)
    if output and code == DONE:
        try:
            saved_plan.save(output, plans)
        except ProvisionError as error:
            report.error(error)
            return error.exit_code
        report.say(next(iter(plans)), f"saved to {output}; carry it out: invoke apply {output}")
    return code


def apply(file: Path, *, json: bool, verbose: bool, wait: bool) -> int:
    """Carry out a saved plan's first round, if planning afresh gives the same."""
    report = Report(json=json, verbose=verbose)
    stop = Stop()
    found: dict[str, Any] = {}
    try:
        if file.name.startswith("-"):
            raise UsageError("apply takes a plan file", hint="see: invoke --help apply")
        saved = saved_plan.read(file)
    except ProvisionError as error:
        return refused(report, error, json=json)

    def do(host: Host) -> int:
        with accounted(report, host.name, found) as account:
            ready = get_ready(host, report, compared=False)
            from provision import engine

            seen = engine.free(ready, engine.look(ready), account.tell, wait=wait)
            if seen.plan.fingerprint != saved["fingerprint"]:
                account.more["differences"] = saved_plan.differences(saved, seen.plan)
                report.differences(host.name, account.more["differences"])
                return DIFFERENCES
            if not seen.plan.empty:
                seen = engine.apply_saved(ready, seen, account.tell, stop)
            account.more["plan"] = seen.plan.to_data()
            report.plan(seen.plan)
            return DONE

    code = each(report, [saved["host"]], (), do, found, stop=stop)
    if json:
        report.data(found)
    return code


def verify(
    hosts: Names,
    groups: Names,
    *,
    json: bool,
    verbose: bool,
    record_baseline: bool = False,
    active: bool = False,
    python: str = "",
) -> int:
    """Check hosts; what is awaited or differs ends with code 3.

    With `record_baseline` each is first taken as it is, for all checks to come. With `active`
    GPUs are made to work, by an environment's interpreter or the one named; where they can't be,
    that is one row more, and with an interpreter that turns out to be none the code is 2.
    """
    report = Report(json=json, verbose=verbose)
    found: dict[str, Any] = {}
    if python and not active:
        error = UsageError("--python names the interpreter of --active", hint="add --active")
        return refused(report, error, json=json)

    def do(host: Host) -> int:
        ready = get_ready(host, report, compared=not record_baseline)
        seen = look(ready, report)
        trials, code = _try(ready, seen, report, python) if active else (None, DONE)
        if record_baseline:
            ready = _record(ready, seen, trials, report)
        rows = _rows(ready, seen, trials)
        report.findings(host.name, rows)
        found[host.name] = [row.to_data() for row in rows]
        return code or _code(rows)

    code = each(report, hosts, groups, do, found)
    if json:
        report.data(found)
    return code


def topology(hosts: Names, groups: Names, *, json: bool) -> int:
    """Show how GPUs are joined, and what that means; GPUs have the numbers of the baseline."""
    report = Report(json=json)
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        ready = get_ready(host, report)
        seen = look(ready, report)
        from provision.checks.cards import cards
        from provision.checks.gpus import missing, told
        from provision.facts import Topology
        from provision.topology import meaning

        there = seen.facts.topology
        if not isinstance(there, Topology):
            reason = there.reason or "there is no nvidia-smi"
            raise ProvisionError(
                f"{host.name}: how its GPUs are joined can't be told: {reason}",
                hint=f"invoke verify --host {host.name}",
            )
        numbers = [card.number for card in cards(ready.want, seen.facts)]
        if len(numbers) != len(there.links):  # one was lost in between: nobody knows which
            numbers = list(range(len(there.links)))
        gone = told(missing(ready.want, seen.facts))
        found[host.name] = {
            "gpus": numbers,
            "missing": gone,
            "links": there.links,
            "numa": there.numa,
            "cpus": there.cpus,
            "meaning": meaning(there, numbers),
        }
        if not json:
            report.topology(host.name, there, numbers, gone)
        return DONE

    code = each(report, hosts, groups, do, found)
    if json:
        report.data(found)
    return code


def facts(hosts: Names, groups: Names, *, json: bool) -> int:
    """Show what the probe sees."""
    report = Report(json=json)
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        seen = look(get_ready(host, report, compared=False), report)
        found[host.name] = seen.raw
        if not json:
            report.facts(host.name, seen.facts)
        return DONE

    code = each(report, hosts, groups, do, found)
    if json:
        report.data(found)
    return code


def get_ready(
    host: Host,
    report: Report,
    *,
    start: bool = False,
    accept_new: bool = False,
    compared: bool = True,
    wheels: tuple[Manifest, ...] | None = None,
) -> Target:
    say = functools.partial(report.say, host.name) if start else None
    return target(host, start=say, accept_new=accept_new, compared=compared, wheels=wheels)


def look(ready: Target, report: Report) -> engine.Look:
    from provision import engine

    seen = engine.look(ready)
    if going_on := engine.going_on(seen):  # what is shown may change at any moment
        report.event(ready.host.name, going_on)
    return seen


def _try(
    ready: Target, seen: engine.Look, report: Report, python: str
) -> tuple[Trials | Unknown, int]:
    """What GPUs did, or why nobody knows, so that the other rows stand; and its exit code."""
    from provision.trials.attempt import attempt, untried

    report.say(ready.host.name, "making its GPUs work; that takes up to a few minutes")
    try:
        return attempt(ready, seen.facts, python), DONE
    except ProvisionError as error:
        return untried(error), error.exit_code


def _record(
    ready: Target, seen: engine.Look, trials: Trials | Unknown | None, report: Report
) -> Target:
    """The host with what it is now as its baseline.

    Raises ProvisionError where GPUs are missing: recorded, they would never be missed again.
    """
    from provision import baseline
    from provision.checks.recorded import doubtful, figures, record
    from provision.facts.trials import Trials

    name = ready.host.name
    try:
        before = baseline.load(name)
    except UsageError:  # damaged: it is replaced
        before = None
    kept = before.figures if before else None  # until GPUs are made to work anew
    new = figures(seen.facts, trials) if isinstance(trials, Trials) else kept
    taken = record(name, seen.facts, new)
    expected = ready.want.gpus.count if ready.want.gpus else len(taken.gpus)
    if len(taken.gpus) != expected:
        raise ProvisionError(
            f"{name}: has {len(taken.gpus)} GPUs, and the inventory expects {expected}",
            hint="mend the host, or the inventory, before recording it",
        )
    path = baseline.save(name, taken)
    report.say(name, f"recorded as it is: {path}")
    for row in doubtful(ready.want, seen.facts):
        report.say(name, f"recorded although it may be a fault: {row.prose}", "yellow")
    return replace(ready, want=replace(ready.want, baseline=taken))


def _rows(
    ready: Target, seen: engine.Look, trials: Trials | Unknown | None = None
) -> list[Finding]:
    from provision import checks

    rows = checks.check(ready.want, seen.facts, seen.plan)
    if trials is None:
        return rows
    from provision.checks import active

    return [*rows, *active.check(ready.want, seen.facts, trials)]


def _code(rows: Sequence[Finding]) -> int:
    from provision.checks.finding import Action, worst

    return DONE if worst(rows) in (Action.NONE, Action.IGNORE) else DIFFERENCES


def _awaited(row: Finding, seen: engine.Look) -> bool:
    return any(row.subject == change.subject for change in seen.plan.awaited)
