"""What goes on at this moment: a line per host, below everything, where there is a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from provision.report.plain import plain

STEPS = {
    "probing": "probing",
    "joining": "following a run that goes on",
    "fetching": "fetching",
    "uploading": "uploading",
    "reconnecting": "connecting again",
    "rebooting": "rebooting",
    "back": "probing",
}

STEP = 44
"""Columns that a step may take."""
BESIDE = 13
"""Columns of the time, up to a day in seconds, and between the columns."""


@dataclass
class Line:
    """One host's step, since when (monotonic seconds), and the last line of its output."""

    step: str = "connecting"
    since: float = field(default_factory=time.monotonic)
    output: str = ""


class Progress:
    """The live lines; does nothing where output goes to a file or a pipe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: dict[str, Line] = {}
        self._lock = threading.Lock()

    @contextmanager
    def shown(self, hosts: Sequence[str]) -> Iterator[None]:
        """Show a line for each host while the block runs."""
        if not self._console.is_terminal:
            yield
            return
        with self._lock:
            self._lines = {host: Line() for host in hosts}
        live = Live(
            console=self._console, get_renderable=self._table, refresh_per_second=8, transient=True
        )
        with live:
            yield

    def done(self, host: str) -> None:
        """The host needs no line any more."""
        with self._lock:
            self._lines.pop(host, None)

    def event(self, host: str, event: Mapping[str, Any]) -> None:
        """Take note of a step."""
        with self._lock:
            line = self._lines.get(host)
            if line is None:
                return
            match event["event"]:
                case "output":
                    line.output = plain(event["line"])
                case "waiting":
                    line.output = plain(event["reason"])
                case "building":
                    line.output = plain(event["text"])
                case "change":
                    self._lines[host] = Line(step=plain(event["id"]))
                case name if name in STEPS:
                    self._lines[host] = Line(step=STEPS[name])

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2), expand=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=STEP)
        table.add_column(no_wrap=True, overflow="ellipsis")
        now = time.monotonic()
        with self._lock:
            taken = max(
                (len(host) + min(len(one.step), STEP) for host, one in self._lines.items()),
                default=0,
            )
            room = max(10, self._console.width - taken - BESIDE)
            for host, line in self._lines.items():
                table.add_row(
                    Text(host, "bold"),
                    f"{now - line.since:.0f} s",
                    Text(line.step, "cyan"),
                    Text(line.output[:room], "dim"),
                )
        return table
