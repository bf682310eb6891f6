"""Asks the host what it is: every collector side by side, each under a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from provision.remote.command import Missing

SCHEMA = 1
DEADLINE = 30.0
"""Seconds that any one collector may take; one that hangs becomes a fact, not a hang."""

Query = Mapping[str, Any]


class Collector(Protocol):
    """A module of `collectors/`: `run` touches the host and gives what its pure parsers made."""

    NAME: str

    def collect(self, query: Query) -> Any: ...  # noqa: ANN401


def probe(collectors: list[Any], query: Query, *, deadline: float = DEADLINE) -> dict[str, Any]:
    """Run all collectors; the answer has one entry for each, whatever happened to it."""
    answers: dict[str, dict[str, Any]] = {}

    def ask(collector: Collector) -> None:
        answers[collector.NAME] = _answer(collector, query)

    threads = [(c, threading.Thread(target=ask, args=(c,), daemon=True)) for c in collectors]
    end = time.monotonic() + deadline
    for _, thread in threads:
        thread.start()
    for collector, thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            answers[collector.NAME] = {
                "status": "timeout",
                "reason": f"no answer within {deadline:g} s",
                "seconds": deadline,
            }
    return {"schema": SCHEMA, "facts": {c.NAME: answers[c.NAME] for c, _ in threads}}


def _answer(collector: Collector, query: Query) -> dict[str, Any]:
    start = time.monotonic()
    try:
        answer: dict[str, Any] = {"status": "ok", "value": collector.collect(query)}
    except Missing as missing:
        answer = {"status": "absent", "reason": str(missing)}
    except Exception as error:  # noqa: BLE001 - a fault in one collector must not blind the rest
        answer = {"status": "error", "reason": f"{type(error).__name__}: {error}"}
    answer["seconds"] = round(time.monotonic() - start, 4)
    return answer
