"""Every GPU that the inventory or the baseline expects is there, and is the card expected.

Without a baseline the number of one that is missing is a guess: nvidia-smi counts those that are
left anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from provision.checks.cards import Card, cards, slots
from provision.checks.finding import Action, Finding, compare, unknown, unseen
from provision.compatibility.seen import DISPLAY
from provision.facts import Facts
from provision.want import Want

LOST = "is lost"
"""In the words of nvidia-smi (NVML_ERROR_GPU_IS_LOST) and of our reading of its XML."""

ANEW = (
    "those left are counted anew; invoke verify --record-baseline, once all are there, has each "
    "number stay with its slot"
)


def check(want: Want, facts: Facts) -> list[Finding]:
    expected = _count(want)
    if not isinstance(facts.gpus, list):
        return _untold(expected, unseen(facts.gpus))
    there = cards(want, facts)
    rows = []
    if expected:
        rows.append(
            compare(
                "gpu.count",
                "host",
                expected=expected,
                observed=len(there),
                action=Action.INSPECT,
                reason="the inventory expects another number of GPUs",
                noun="GPUs",
            )
        )
    for card in there:
        rows += _identity(want, card)
    return rows + [_absent(gone) for gone in missing(want, facts)]


def _untold(expected: int, reason: str) -> list[Finding]:
    """nvidia-smi told of no GPU; that one is lost it says of itself, and what to do then."""
    rows = [unknown("gpu.count", "host", expected=expected or "GPUs", reason=reason, noun="GPUs")]
    for number in range(expected):
        subject = f"GPU {number}"
        rows.append(unknown("gpu.present", subject, expected="present", reason=reason, noun="is"))
    lost = LOST in reason
    return [replace(row, action=Action.REBOOT) if lost else row for row in rows]


def _identity(want: Want, card: Card) -> list[Finding]:
    gpu, recorded = card.gpu, card.recorded
    model = want.gpus.model if want.gpus else recorded.name if recorded else gpu.name
    rows = [
        compare(
            "gpu.present",
            card.subject,
            expected=model,
            observed=gpu.name,
            action=Action.INSPECT,
            reason="another model than the inventory expects",
            noun="model",
        )
    ]
    if want.baseline:
        rows.append(
            compare(
                "gpu.card",
                card.subject,
                expected=recorded.uuid if recorded else "no card in this slot",
                observed=gpu.uuid,
                action=Action.INSPECT,
                reason=f"slot {gpu.slot}: not the card that was recorded; if it was exchanged on "
                "purpose: invoke verify --record-baseline",
            )
        )
    return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """A GPU that is expected, or on the bus, and does not answer."""

    number: int
    recorded: bool
    """Its number is the baseline's; otherwise it is the next one behind those that answer."""
    slot: str = ""
    """'' where nothing tells it."""
    on_the_bus: bool = False

    @property
    def state(self) -> str:
        """absent, and from where as far as that is known."""
        return f"absent (slot {self.slot})" if self.slot else "absent"


def missing(want: Want, facts: Facts) -> list[Missing]:
    """Each that does not answer, by its slot wherever that is known; none where nobody answers."""
    if not isinstance(facts.gpus, list):
        return []
    there, recorded, expected = cards(want, facts), list(slots(want)), _count(want)
    seen = {card.gpu.slot for card in there}
    silent = _on_the_bus(facts) - seen
    gone = [
        Missing(number=number, recorded=True, slot=slot, on_the_bus=slot in silent)
        for number, slot in enumerate(recorded)
        if slot not in seen
    ]
    first = max([len(recorded), *(card.number + 1 for card in there)])
    others = sorted(silent - set(recorded))
    more = expected - len(there) - len(gone) if expected else len(others)
    for number in range(more):
        slot = others[number] if number < len(others) else ""
        gone.append(
            Missing(number=first + number, recorded=False, slot=slot, on_the_bus=bool(slot))
        )
    return gone


def told(gone: Sequence[Missing]) -> list[str]:
    """In sentences: each by its recorded number, the others by how many they are."""
    sentences = [f"GPU {one.number} is {one.state}" for one in gone if one.recorded]
    if others := [one for one in gone if not one.recorded]:
        named = ", ".join(one.slot for one in others if one.slot)
        count = "1 GPU is" if len(others) == 1 else f"{len(others)} GPUs are"
        where = f" (slot {named})" if named else ""
        sentences.append(f"{count} absent{where}, and nobody knows which: {ANEW}")
    return sentences


def _absent(gone: Missing) -> Finding:
    reason = "nothing on the bus: fallen off, unseated or without power"
    if gone.on_the_bus:
        reason = "the bus has it, the driver does not: see gpu.xid and the kernel's log"
    return Finding(
        id="gpu.present",
        subject=f"GPU {gone.number}",
        expected="present",
        observed=gone.state,
        action=Action.REBOOT if gone.on_the_bus else Action.INSPECT,
        reason=reason if gone.recorded else f"{reason}; its number is a guess: {ANEW}",
        noun="is",
    )


def _count(want: Want) -> int:
    """How many are expected; 0 where nobody says."""
    return want.gpus.count if want.gpus else len(slots(want))


def _on_the_bus(facts: Facts) -> set[str]:
    """Slots with a GPU of NVIDIA's, driver or not."""
    found = facts.pci if isinstance(facts.pci, list) else []
    return {device.slot for device in found if device.kind in DISPLAY}
