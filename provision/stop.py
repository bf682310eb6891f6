"""How a user stops what goes on: nothing new begins while they are asked, or an end is set."""

from __future__ import annotations

import threading


class Stop(threading.Event):
    """Set once an end is wanted; while the user is being asked, whoever begins something waits."""

    def __init__(self) -> None:
        super().__init__()
        self._answered = threading.Event()
        self._answered.set()

    def asking(self) -> None:
        """The question is open."""
        self._answered.clear()

    def answered(self) -> None:
        """It is no more."""
        self._answered.set()

    def wait_for_answer(self) -> None:
        """Come back when no question is open."""
        self._answered.wait()
