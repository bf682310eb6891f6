"""What a command did on a host, as data: runs as `history` has them, restarts, and more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from provision.events import SHAPES
from provision.history import runs
from provision.report import Report


class Account:
    """Passes on what happens on a host, and remembers what a host's journal would have of it."""

    def __init__(self, report: Report, host: str) -> None:
        self._report, self._host = report, host
        self._events: list[Mapping[str, Any]] = []
        self._restarts = 0
        self.more: dict[str, Any] = {}
        """What else is to be said, by name."""

    def tell(self, event: Mapping[str, Any]) -> None:
        """Something happened: show it, and remember it."""
        self._restarts += event["event"] == "back"
        if event["event"] in SHAPES and event["event"] != "output":
            self._events.append(event)
        self._report.event(self._host, event)

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        boot = next((e.get("boot") for e in reversed(self._events) if e["event"] == "start"), None)
        told = {"events": self._events, "running": None, "boot": boot}
        done = [past.to_data() for past in runs(told)]
        return {"runs": done, "restarts": self._restarts, **self.more}


@contextmanager
def accounted(report: Report, host: str, found: dict[str, Any]) -> Iterator[Account]:
    """An account that stands in `found` whatever becomes of the work."""
    account = Account(report, host)
    try:
        yield account
    finally:
        found[host] = account.to_data()
