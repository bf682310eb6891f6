"""Facts that a resource can't do without."""

from __future__ import annotations

from typing import TypeVar

from provision.facts import Absent, Unknown

T = TypeVar("T")


class NotKnown(Exception):
    """Planning stops here for this resource: why, and what the user can do."""

    def __init__(self, reason: str, *, subject: str = "-", hint: str = "") -> None:
        super().__init__(reason)
        self.subject = subject
        self.hint = hint


def known(answer: T | Absent | Unknown, name: str) -> T:
    """The fact's value. Raises NotKnown when it is unknown or absent."""
    if isinstance(answer, Unknown):
        raise NotKnown(f"{name}: {answer.reason}", subject=name)
    if isinstance(answer, Absent):
        raise NotKnown(f"{name}: {answer.reason or 'not on this host'}", subject=name)
    return answer
