"""A host's past runs, for people."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from provision.history import Past

STYLES = {"done": "green", "failed": "red", "cancelled": "yellow"}


def table(host: str, runs: Sequence[Past]) -> Table:
    """A line per run, the latest at the end."""
    rows = Table(title=host, title_justify="left", show_edge=False)
    rows.add_column("run", no_wrap=True)  # to be named with --run
    for name in ("started", "by", "changes", "result", "time"):
        rows.add_column(name, overflow="fold")
    for past in runs:
        done = sum(step.result == "done" for step in past.steps)
        rows.add_row(
            Text(past.run),
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(past.started)),
            Text(past.who),
            f"{done} of {len(past.changes)}",
            Text(_result(past), STYLES.get(past.result, "yellow")),
            "" if past.ended is None else f"{past.ended - past.started:.1f} s",
        )
    return rows


def _result(past: Past) -> str:
    stopped = next((step.id for step in past.steps if step.result != "done"), "")
    match past.result:
        case "failed":
            return f"failed at {stopped}"
        case "cancelled":
            return f"cancelled by {past.by}"
        case "no end":
            return f"no end: in {stopped}" if stopped else "no end"
    return f"{past.result}, restarted" if past.reboot else past.result


def changes(past: Past) -> Table:
    """Every change of a run; of one that failed the end of its log."""
    rows = Table("change", "result", "time", show_edge=False)
    begun = {step.id for step in past.steps}
    for step in past.steps:
        seconds = "" if step.seconds is None else f"{step.seconds:.1f} s"
        said = Text(step.result, STYLES.get(step.result, "yellow"))
        if step.reason:
            said.append(f": {step.reason}")
        for line in step.log:
            said.append(f"\n| {line}", "dim")
        rows.add_row(Text(step.id), said, seconds)
    for name in past.changes:
        if name not in begun:
            rows.add_row(Text(name), Text("not begun", "dim"), "")
    return rows
