"""A host's past runs, for people: a line per run, and on demand a line per change."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from provision.history import Past, Step
from provision.report.plain import plain

STYLES = {"done": "green", "failed": "red", "cancelled": "yellow", "stale": "dim"}
MARKS = {"done": "✓", "failed": "✗"}


def lines(past: Past, *, whole: bool) -> Iterator[Text]:
    """One run; its name begins with the time (UTC) at which it was started."""
    done = sum(step.result == "done" for step in past.steps)
    seconds = "" if past.ended is None else f", {past.ended - past.started:.1f} s"
    yield Text.assemble(
        f"{plain(past.run)}  ",
        (plain(_result(past)), STYLES.get(past.result, "yellow")),
        f"  {done} of {len(past.changes)} changes{seconds}, by {plain(past.who)}",
    )
    if whole:
        for step in past.steps:
            yield from _step(step)
        begun = {step.id for step in past.steps}
        for name in past.changes:
            if name not in begun:
                yield Text(f"    {plain(name)}: not begun", "dim")


def _step(step: Step) -> Iterator[Text]:
    mark = MARKS.get(step.result, "…")
    seconds = "" if step.seconds is None else f"  {step.seconds:.1f} s"
    reason = f": {step.reason}" if step.reason else "" if step.result == "done" else ": no end"
    style = STYLES.get(step.result, "yellow")
    yield Text.assemble("  ", (mark, style), f" {plain(step.id + reason)}{seconds}")
    for line in step.log:
        yield Text(f"    | {plain(line)}", "dim")


def _result(past: Past) -> str:
    stopped = next((step.id for step in past.steps if step.result != "done"), "")
    match past.result:
        case "failed":
            return f"failed at {stopped}"
        case "cancelled":
            return f"cancelled by {past.by}"
        case "no end":
            return f"no end, in {stopped}" if stopped else "no end"
    return f"{past.result}, restarted" if past.reboot else past.result
