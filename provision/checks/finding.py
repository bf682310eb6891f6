"""What a check says: expected, observed, and what to do about the difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Action(Enum):
    """What answers a finding, from the lightest to the heaviest."""

    NONE = "none"
    IGNORE = "ignore"
    BUILD = "build"
    PROVISION = "provision"
    RESTART = "restart"
    RESET = "reset"
    REBOOT = "reboot"
    INSPECT = "inspect"

    @property
    def advice(self) -> str:
        """What somebody should do, in words."""
        return ADVICE[self]


ADVICE = {
    Action.NONE: "nothing to do",
    Action.IGNORE: "worth knowing, nothing to do",
    Action.BUILD: "build what is awaited",
    Action.PROVISION: "invoke provision",
    Action.RESTART: "restart the service or the application",
    Action.RESET: "reset the GPU while nothing uses it: nvidia-smi --gpu-reset --id=N",
    Action.REBOOT: "reboot the host",
    Action.INSPECT: "inspect it, as its row says",
}
STATE = "state."
"""What the ids of findings begin with that are changes of the plan."""
RANK = {action: rank for rank, action in enumerate(Action)}


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
    noun: str = ""
    """What `id` is called in a sentence, where its last word does not do."""

    @property
    def ok(self) -> bool:
        """Observed as expected."""
        return self.action is Action.NONE

    @property
    def prose(self) -> str:
        """As a sentence has it: "GPU 3: PCIe x8 instead of x16"."""
        noun = self.noun or self.id.rpartition(".")[2].replace("_", " ")
        said = self.observed if self.ok else f"{self.observed} instead of {self.expected}"
        return f"{self.subject}: {noun} {said}"

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        data = asdict(self)
        del data["noun"]
        return {**data, "action": self.action.value, "ok": self.ok, "text": self.prose}


WORDS = {True: "yes", False: "no", None: "none"}
"""A value that is no text, as people say it."""


def said(value: object) -> str:
    """A value in a sentence."""
    return WORDS[value] if value is None or isinstance(value, bool) else str(value)


def worst(rows: Iterable[Finding]) -> Action:
    """The heaviest action that any row asks for."""
    return max((row.action for row in rows), key=RANK.__getitem__, default=Action.NONE)


def advice(rows: Sequence[Finding]) -> str:
    """What to do next, in words: what the heaviest finding asks for.

    While there is something to provision that alone, whatever else there is: a host on its way,
    such as before its restart, has findings that nothing but going on mends. A reset or a reboot
    comes before an inspection: it may bring back the GPU that is to be inspected.
    """
    planned = {row.action for row in rows if row.id.startswith(STATE)}
    heaviest = worst(rows)
    if Action.INSPECT in planned:  # a plan is carried out as a whole: one change blocks all
        return heaviest.advice
    if Action.PROVISION in planned:
        left = ", which then checks what is left" if heaviest is not Action.PROVISION else ""
        return f"{Action.PROVISION.advice}{left}"
    first = worst(row for row in rows if row.action is not Action.INSPECT)
    if heaviest is Action.INSPECT and first in (Action.RESET, Action.REBOOT):
        return f"{first.advice}, then inspect what is left"
    return heaviest.advice


def judge(
    id: str,  # noqa: A002 - the field's own name
    subject: str,
    well: bool,  # noqa: FBT001 - it is the question itself
    *,
    expected: object,
    observed: object,
    action: Action,
    reason: str,
    noun: str = "",
) -> Finding:
    """A finding that is right when `well`; `action` and `reason` are for when it is not."""
    return Finding(
        id=id,
        subject=subject,
        expected=said(expected),
        observed=said(observed),
        action=Action.NONE if well else action,
        reason="" if well else reason,
        noun=noun,
    )


def compare(
    id: str,  # noqa: A002 - the field's own name
    subject: str,
    *,
    expected: object,
    observed: object,
    action: Action,
    reason: str,
    noun: str = "",
) -> Finding:
    """A finding that is right when both sides are equal."""
    return judge(
        id,
        subject,
        expected == observed,
        expected=expected,
        observed=observed,
        action=action,
        reason=reason,
        noun=noun,
    )


def unknown(
    id: str,  # noqa: A002 - the field's own name
    subject: str,
    *,
    expected: object,
    reason: str,
    noun: str = "",
) -> Finding:
    """What could not be found out is never taken for fine."""
    return Finding(
        id=id,
        subject=subject,
        expected=str(expected),
        observed="unknown",
        action=Action.INSPECT,
        reason=reason,
        noun=noun,
    )


def unseen(answer: object) -> str:
    """Why a fact is not there: the probe's reason, or that the host has no such thing."""
    return getattr(answer, "reason", "") or "it is not on this host"
