"""What each task does: select hosts, run the loop, render; returns the exit code."""

from __future__ import annotations

import functools
import json as json_module
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from provision import checks, engine, inventory
from provision.checks.finding import Finding
from provision.errors import DIFFERENCES, DONE, FAILED, INTERRUPTED, ProvisionError, UsageError
from provision.facts import Json
from provision.inventory import Host
from provision.report import Report
from provision.target import Target, lab_spec, target

Names = Sequence[str]


def each(report: Report, hosts: Names, groups: Names, do: Callable[[Host], int]) -> int:
    """Work on every host asked for; one host's failure is its own. The worst code of all."""
    codes = []
    try:
        chosen = inventory.load().select(hosts, groups)
        for host in chosen:
            try:
                codes.append(do(host))
            except ProvisionError as error:
                report.error(error)
                codes.append(error.exit_code)
    except ProvisionError as error:
        report.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        report.error(
            ProvisionError(
                "interrupted",
                hint="a run that was started goes on there; the same command follows it",
            )
        )
        return INTERRUPTED
    return next(
        (code for code in (UsageError.exit_code, FAILED, DIFFERENCES) if code in codes), DONE
    )


def provision(hosts: Names, groups: Names, *, verbose: bool) -> int:
    """Bring hosts to their stack, then check them on the facts of the last probe."""
    report = Report(verbose=verbose)

    def do(host: Host) -> int:
        ready = _ready(host, report, start=True)
        seen = engine.provision(ready, functools.partial(report.event, host.name))
        rows = [row for row in _rows(ready, seen) if not _awaited(row, seen)]
        report.findings(host.name, rows)
        report.cost(host.name, ready.transport.cost)
        return _code(rows)

    return each(report, hosts, groups, do)


def plan(hosts: Names, groups: Names, *, json: bool, verbose: bool, output: Path | None) -> int:
    """Show each host's plan, or save one; nothing is changed."""
    report = Report(json=json, verbose=verbose)
    plans: list[dict[str, Any]] = []

    def do(host: Host) -> int:
        seen = engine.look(_ready(host, report))
        report.plan(seen.plan, commands=True)
        plans.append(seen.plan.to_data())
        return FAILED if seen.plan.now.blocked else DONE

    code = each(report, hosts, groups, do)
    if json:
        report.data(plans[0] if len(plans) == 1 else plans)
    if output and plans:
        if len(plans) > 1:
            report.error(UsageError("--output takes the plan of one host", hint="name one --host"))
            return UsageError.exit_code
        _save(output, plans[0])
        report.say(plans[0]["host"], f"saved to {output}; carry it out: invoke apply {output}")
    return code


def apply(file: Path, *, verbose: bool) -> int:
    """Carry out a saved plan's first round, if planning afresh gives the same."""
    report = Report(verbose=verbose)
    try:
        saved = _saved(file)
    except ProvisionError as error:
        report.error(error)
        return error.exit_code

    def do(host: Host) -> int:
        ready = _ready(host, report)
        seen = engine.look(ready)
        if seen.plan.fingerprint != saved["fingerprint"]:
            report.differences(host.name, saved, seen.plan)
            return DIFFERENCES
        if not seen.plan.empty:
            engine.apply(ready, seen, functools.partial(report.event, host.name))
            seen = engine.look(ready)
        report.plan(seen.plan)
        return DONE

    return each(report, [saved["host"]], (), do)


def verify(hosts: Names, groups: Names, *, json: bool, verbose: bool) -> int:
    """Check hosts; what is awaited or differs ends with code 3."""
    report = Report(json=json, verbose=verbose)
    found: dict[str, Any] = {}

    def do(host: Host) -> int:
        ready = _ready(host, report)
        rows = _rows(ready, engine.look(ready))
        report.findings(host.name, rows)
        found[host.name] = [row.to_data() for row in rows]
        return _code(rows)

    code = each(report, hosts, groups, do)
    if json:
        report.data(found)
    return code


def facts(hosts: Names, groups: Names, *, json: bool) -> int:
    """Show what the probe sees."""
    report = Report(json=json)
    found: dict[str, Json] = {}

    def do(host: Host) -> int:
        seen = engine.look(_ready(host, report))
        found[host.name] = seen.raw
        if not json:
            report.facts(host.name, seen.facts)
        return DONE

    code = each(report, hosts, groups, do)
    if json:
        report.data(next(iter(found.values())) if len(found) == 1 else found)
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
    """Shut lab hosts down."""
    from provision import lab

    report = Report()

    def do(host: Host) -> int:
        was = lab.down(lab_spec(host).name, discard=discard)
        report.say(host.name, "down" if was else "was not up")
        return DONE

    return each(report, hosts, groups, do)


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
    words = ["ssh", "-F", str(there.ssh_config), name]
    return subprocess.run([*words, command] if command else words, check=False).returncode


def _ready(host: Host, report: Report, *, start: bool = False) -> Target:
    return target(host, start=functools.partial(report.say, host.name) if start else None)


def _rows(ready: Target, seen: engine.Look) -> list[Finding]:
    return checks.check(ready.want, seen.facts, seen.plan)


def _code(rows: Sequence[Finding]) -> int:
    return DONE if all(row.ok for row in rows) else DIFFERENCES


def _awaited(row: Finding, seen: engine.Look) -> bool:
    return any(row.subject == change.subject for change in seen.plan.awaited)


def _save(file: Path, data: Json) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as out:  # noqa: PTH123 - a handle, for its mode
        out.write(json_module.dumps(data, indent=2, ensure_ascii=False) + "\n")


def _saved(file: Path) -> dict[str, Any]:
    try:
        data = json_module.loads(file.read_text(encoding="utf-8"))
        names = {"host", "fingerprint", "rounds"}
        if not (isinstance(data, dict) and names <= data.keys()):
            raise ValueError("it holds no plan")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file}: can't be read as a plan: {error}",
            hint=f"make one: invoke plan --output {shlex.quote(str(file))}",
        ) from error
    return data
