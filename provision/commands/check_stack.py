"""What `check-stack` does: hold stacks to the rules, render; returns the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provision import compatibility, resources, wire
from provision import stack as stacks
from provision.errors import DIFFERENCES, DONE, ProvisionError
from provision.facts import Facts, parse
from provision.fleet import each, refused
from provision.inventory import Host
from provision.report import Report
from provision.target import target
from provision.want import Want


def check_stack(stack: str, hosts: Sequence[str], *, json: bool) -> int:
    """Hold stacks to the rules of what goes together: by themselves, or with what hosts are."""
    report = Report(json=json)
    found: dict[str, Any] = {}

    def judge(name: str, want: Want, facts: Facts | None) -> int:
        rows = compatibility.check(want, facts)
        report.rules(name, rows)
        found[name] = [row.to_data() for row in rows]
        return DIFFERENCES if compatibility.violated(rows) else DONE

    def do(host: Host) -> int:
        asked = host.model_copy(update={"stack": stack}) if stack else host
        ready = target(asked, compared=False)
        raw = wire.probe(ready.transport, resources.query(ready.want))
        return judge(host.name, ready.want, parse(raw))

    try:
        loaded = [stacks.load(name) for name in ([stack] if stack else stacks.names())]
        if hosts:
            code = each(report, hosts, (), do, found)
        else:
            uv = stacks.load_uv()
            with report.working([one.name for one in loaded]):
                code = max(judge(one.name, Want(stack=one, uv=uv), None) for one in loaded)
    except ProvisionError as error:
        return refused(report, error, json=json)
    if json:
        report.data(found)
    return code
