"""What must be so after every fault: the journal's order, and what lies on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.lab.trial import Trial

Events = Sequence[Mapping[str, Any]]


def disorder(events: Events, *, torn: bool) -> list[str]:
    """What is wrong with a journal. `torn`: a run may have been cut short, but only the rest of it.

    A run begins with `start` and ends with `end`; one that found itself stale has its end alone.
    Every change in it is done, failed or cancelled before the next one begins.
    """
    wrong = [
        f"time runs back before {after['event']} of {after['run']}"
        for before, after in pairwise(events)
        if after["time"] < before["time"]
    ]
    for run in dict.fromkeys(str(event["run"]) for event in events):
        its = [event for event in events if event["run"] == run]
        wrong += [f"run {run}: {what}" for what in _of_one(its, torn=torn)]
    return wrong


def _of_one(its: Events, *, torn: bool) -> list[str]:
    if its[0]["event"] == "end":
        return [] if (len(its), its[0]["result"]) == (1, "stale") else ["ends without a start"]
    wrong = [] if its[0]["event"] == "start" else ["has no start"]
    going_on = ""
    for event in its[1:]:
        match event["event"]:
            case "change" if going_on:
                wrong.append(f"{event['id']} begins within {going_on}")
            case "change":
                going_on = str(event["id"])
            case "done" | "failed" if event["id"] != going_on:
                wrong.append(f"{event['id']} ends and did not begin")
            case "done" | "failed" | "cancelled":
                going_on = ""
            case "end" if going_on:
                wrong.append(f"the end comes within {going_on}")
    if its[-1]["event"] != "end" and not torn:
        wrong.append("has no end")
    return wrong


def repeated(events: Events) -> list[str]:
    """Changes that were done, and planned once more in a later run."""
    done: set[str] = set()
    again: list[str] = []
    for event in events:
        if event["event"] == "start":
            again += [name for name in event["changes"] if name in done]
        if event["event"] == "done":
            done.add(str(event["id"]))
    return [f"{name} was done, and is planned again" for name in again]


ASKED = {
    "held": "apt-mark showhold",
    "run": "ls -A /run/firstlight",
    "dpkg": "dpkg --audit; apt-get -qq check 2>&1",
    "open": "find /var/log/firstlight /run/firstlight -perm /077 -type f",
}
"""What is asked of the host in the end."""


def left_behind(trial: Trial, held: Sequence[str]) -> list[str]:
    """What should be on the host and is not, and the other way round."""
    upper = trial.root.parent / "upper"
    strays = upper.rglob("*.firstlight-new")
    wrong = [f"/{stray.relative_to(upper)} is left" for stray in strays]
    script = "; ".join(f"({command}) | sed 's/^/{key} /'" for key, command in ASKED.items())
    said = [line.partition(" ")[::2] for line in trial.ask(script).splitlines()]
    answers = {key: [text for name, text in said if name == key] for key in ASKED}
    if sorted(answers["held"]) != sorted(held):
        now = ", ".join(answers["held"]) or "nothing"
        wrong.append(f"held: {now} instead of {', '.join(held)}")
    if left := set(answers["run"]) - {"lock", *_of_killed_run(trial.events())}:
        wrong.append(f"left in /run/firstlight: {', '.join(sorted(left))}")
    wrong += [f"dpkg: {line}" for line in answers["dpkg"]]
    wrong += [f"others may read {path}" for path in answers["open"]]
    return wrong


def _of_killed_run(events: Events) -> list[str]:
    """What a run that was killed leaves until the next one begins, or the host boots."""
    last = events[-1]
    return [] if last["event"] == "end" else [str(last["run"]), "active.json"]
