"""What a check says: expected, observed, and what to do about the difference."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Action(Enum):
    """What answers a finding, from the lightest to the heaviest."""

    NONE = "none"
    BUILD = "build"
    PROVISION = "provision"
    RESTART = "restart"
    RESET = "reset"
    REBOOT = "reboot"
    INSPECT = "inspect"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One row of a verification. `action` is NONE when what was observed is as expected."""

    id: str
    """What was looked at, such as gpu.ecc."""
    subject: str
    """Of what, such as 'GPU 3'."""
    expected: str
    observed: str
    action: Action
    reason: str = ""
    """Why it matters, when it is not as expected."""

    @property
    def ok(self) -> bool:
        """Observed as expected."""
        return self.action is Action.NONE

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "action": self.action.value, "ok": self.ok}


def compare(
    id: str,  # noqa: A002 - the field's own name
    subject: str,
    *,
    expected: object,
    observed: object,
    action: Action,
    reason: str,
) -> Finding:
    """A finding that is right when both sides are equal."""
    same = expected == observed
    return Finding(
        id=id,
        subject=subject,
        expected=str(expected),
        observed=str(observed),
        action=Action.NONE if same else action,
        reason="" if same else reason,
    )


def unknown(id: str, subject: str, *, expected: object, reason: str) -> Finding:  # noqa: A002
    """What could not be found out is never taken for fine."""
    return Finding(
        id=id,
        subject=subject,
        expected=str(expected),
        observed="unknown",
        action=Action.INSPECT,
        reason=reason,
    )
