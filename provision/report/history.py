"""A host's past runs, for people: a line per run, and on demand a line per change."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from provision.history import DIED, GOING_ON, Past, Step
from provision.report.plain import plain

STYLES = {"done": "green", "failed": "red", DIED: "red", GOING_ON: "cyan", "stale": "dim"}
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
            yield from _step(step, past.result)
        begun = {step.id for step in past.steps}
        for name in past.changes:
            if name not in begun:
                yield Text(f"    {plain(name)}: not begun", "dim")


def _step(step: Step, end: str) -> Iterator[Text]:
    mark = MARKS.get(step.result, "…")
    seconds = "" if step.seconds is None else f"  {step.seconds:.1f} s"
    open_ = f": {GOING_ON if end == GOING_ON else 'no end'}" if step.result == "begun" else ""
    reason = f": {step.reason}" if step.reason else open_
    style = STYLES.get(step.result, "yellow")
    yield Text.assemble("  ", (mark, style), f" {plain(step.id + reason)}{seconds}")
    for line in step.log:
        yield Text(f"    | {plain(line)}", "dim")


def _result(past: Past) -> str:
    stopped = next((step.id for step in past.steps if step.result != "done"), "")
    where = f" at {stopped}" if stopped else ""
    match past.result:
        case "failed" | "going on":
            return past.result + where
        case "died" if past.restarted:
            return f"died{where}: it was killed or the host went down, and was restarted since"
        case "died":
            return f"died{where}: it was killed"
        case "cancelled":
            return f"cancelled by {past.by}"
    return f"{past.result}, restarted" if past.reboot else past.result
