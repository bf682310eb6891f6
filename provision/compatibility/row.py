"""What a rule says: two sides, whether they go together, and where that is known from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from provision.facts import Facts
from provision.want import Want


class Verdict(Enum):
    """Unknown is never taken for fine, nor for wrong."""

    OK = "ok"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One rule on one subject."""

    rule: str
    """Such as toolkit.glibc."""
    subject: str
    """Of what, such as 'CUDA 12.8'."""
    left: str
    right: str
    verdict: Verdict
    source: str
    """Where the rule's value stands; a comment there names whom it is from."""
    reason: str = ""
    """What would happen; of what is fine, what is worth knowing."""
    hint: str = ""
    """What to do about a violation."""

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "verdict": self.verdict.value}


@dataclass(frozen=True, slots=True)
class Unseen:
    """A side that could not be found out, and why."""

    reason: str


Rule = Callable[[Want, Facts | None], Iterator[Row]]


def judged(
    well: bool,  # noqa: FBT001 - it is the question itself
    *,
    rule: str,
    subject: str,
    left: str,
    right: str,
    source: str,
    reason: str,
    hint: str,
    note: str = "",
) -> Row:
    """A row whose sides are both known: `reason` and `hint` are for what can't work."""
    return Row(
        rule=rule,
        subject=subject,
        left=left,
        right=right,
        verdict=Verdict.OK if well else Verdict.VIOLATED,
        source=source,
        reason=note if well else reason,
        hint="" if well else hint,
    )


def unknown(rule: str, subject: str, left: str, why: Unseen, source: str) -> Row:
    """A row of which the right side could not be found out."""
    return Row(
        rule=rule,
        subject=subject,
        left=left,
        right=f"unknown: {why.reason}",
        verdict=Verdict.UNKNOWN,
        source=source,
    )
