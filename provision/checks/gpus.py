"""Every GPU that the inventory or the baseline expects is there, and is the card expected."""

from __future__ import annotations

from dataclasses import replace

from provision.checks.cards import Card, cards, slots
from provision.checks.finding import Action, Finding, compare, unknown, unseen
from provision.compatibility.seen import DISPLAY
from provision.facts import Facts
from provision.want import Want

LOST = "is lost"
"""In the words of nvidia-smi (NVML_ERROR_GPU_IS_LOST) and of our reading of its XML."""


def check(want: Want, facts: Facts) -> list[Finding]:
    expected = want.gpus.count if want.gpus else len(slots(want))
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
    return rows + _missing(want, facts, there, expected)


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


def _missing(want: Want, facts: Facts, there: list[Card], expected: int) -> list[Finding]:
    """A row for each that does not answer, by its slot wherever that is known."""
    recorded = list(slots(want))
    seen = {card.gpu.slot for card in there}
    gone = [(number, slot) for number, slot in enumerate(recorded) if slot not in seen]
    silent = _on_the_bus(facts) - seen
    first = max([len(recorded), *(card.number + 1 for card in there)])
    more = expected - len(there) - len(gone) if expected else len(silent)
    others = range(first, first + more)
    unnamed = [*sorted(silent - set(recorded)), *("" for _ in others)]
    gone += zip(others, unnamed, strict=False)
    return [
        Finding(
            id="gpu.present",
            subject=f"GPU {number}",
            expected="present",
            observed=f"absent{f' (slot {slot})' if slot else ''}",
            action=Action.REBOOT if slot in silent else Action.INSPECT,
            reason="the bus has it, the driver does not: see gpu.xid and the kernel's log"
            if slot in silent
            else "nothing on the bus: fallen off, unseated or without power",
            noun="is",
        )
        for number, slot in gone
    ]


def _on_the_bus(facts: Facts) -> set[str]:
    """Slots with a GPU of NVIDIA's, driver or not."""
    found = facts.pci if isinstance(facts.pci, list) else []
    return {device.slot for device in found if device.kind in DISPLAY}
