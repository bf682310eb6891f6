"""A host's journal as runs: what was done, by whom, and how each ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from provision.errors import UsageError

DIED = "died"
GOING_ON = "going on"


@dataclass(kw_only=True, slots=True)
class Step:
    """One change of a run."""

    id: str
    result: str = "begun"
    """begun (and never ended), done or failed."""
    seconds: float | None = None
    reason: str = ""
    log: list[str] = field(default_factory=list)
    """The last lines of its commands' output, when it failed."""


@dataclass(kw_only=True, slots=True)
class Past:
    """One run."""

    run: str
    started: float
    """Seconds since the epoch, by the host's clock."""
    who: str
    fingerprint: str
    changes: list[str]
    """Ids of all that it was to do."""
    steps: list[Step] = field(default_factory=list)
    ended: float | None = None
    result: str = DIED
    """done, failed, cancelled, going on; died: it was killed, or the host went down."""
    restarted: bool = False
    """It died in an earlier boot than the host's present one."""
    by: str = ""
    """Who cancelled it."""
    reboot: bool = False
    """The host was restarted at its end."""

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def runs(told: Mapping[str, Any]) -> list[Past]:
    """The runs in what a host tells, the oldest first; what is no event of ours is passed over.

    `told` are its journal's `events`, which run is `running`, and its present `boot`.
    """
    found: dict[str, Past] = {}
    for event in told["events"]:
        name = str(event.get("run"))
        if event.get("event") == "start":
            found[name] = Past(
                run=name,
                started=_number(event.get("time")) or 0.0,
                who=str(event.get("who", "?")),
                fingerprint=str(event.get("fingerprint", "")),
                changes=_texts(event.get("changes")),
                result=GOING_ON if name == told.get("running") else DIED,
                restarted=name != told.get("running") and event.get("boot") != told.get("boot"),
            )
        elif name in found:
            _note(found[name], event)
    return list(found.values())


def _note(past: Past, event: Mapping[str, Any]) -> None:
    step = next((one for one in reversed(past.steps) if one.id == event.get("id")), None)
    match event.get("event"):
        case "change":
            past.steps.append(Step(id=str(event.get("id"))))
        case "done" if step:
            step.result, step.seconds = "done", _number(event.get("seconds"))
        case "failed" if step:
            step.result = "failed"
            step.reason = str(event.get("reason", ""))
            step.log = _texts(event.get("log"))
        case "cancelled":
            past.by = str(event.get("by", "?"))
        case "end":
            past.ended = _number(event.get("time"))
            past.result = str(event.get("result", "?"))
            past.restarted = False
            past.reboot = event.get("reboot") is True


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def select(told: Mapping[str, Any], run: str, host: str) -> list[Past]:
    """All runs, or the one asked for. Raises UsageError when there is no such run."""
    found = runs(told)
    if not run:
        return found
    chosen = [past for past in found if past.run == run]
    if not chosen:
        known = ", ".join(past.run for past in found[-5:]) or "none"
        raise UsageError(f"{host}: its journal has no run {run}", hint=f"the latest: {known}")
    return chosen
