"""A task that runs beside the test: `invoke WORDS`, as somebody types it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from provision import inventory

ROOT = Path(__file__).parents[2]
PATIENCE = 90.0
"""Seconds until a command must have come to where something is to happen to it, or to its end."""


class Command:
    """One task; what it says goes to a file, so that it never waits for a reader."""

    def __init__(
        self,
        inventory_file: Path,
        words: tuple[str, ...],
        said: Path,
        terminal: int = subprocess.DEVNULL,
    ) -> None:
        self._said = said
        with said.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "invoke", *words],
                cwd=ROOT,
                env={**os.environ, inventory.VARIABLE: str(inventory_file)},
                stdin=terminal,
                stdout=out,
                stderr=subprocess.STDOUT if terminal == subprocess.DEVNULL else terminal,
            )

    @property
    def said(self) -> str:
        """All that it has said so far."""
        return self._said.read_text(errors="replace")

    def await_word(self, text: str) -> None:
        """Wait until it has said this."""
        wait_for(lambda: text in self.said or self.process.poll() is not None, text)
        assert text in self.said, self.said

    def end(self) -> tuple[int, str]:
        """Its exit code and what it said, when it is over."""
        try:
            return self.process.wait(PATIENCE), self.said
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it does not end:\n{self.said[-3000:]}") from None


def wait_for(ready: Callable[[], bool], what: str) -> None:
    """Look again and again, from outside: the host is not asked."""
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.005)
