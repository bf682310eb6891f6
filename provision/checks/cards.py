"""The GPUs that a host has, each with its number, its model's profile and what was recorded of it.

nvidia-smi counts GPUs by their slots: when one is gone, all behind it move up. With a baseline
a number stays with its slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from provision import baseline
from provision.checks import sku
from provision.facts import Facts, Gpu
from provision.want import Want


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One GPU that answers."""

    number: int
    gpu: Gpu
    sku: sku.Sku | None
    recorded: baseline.Card | None

    @property
    def subject(self) -> str:
        """Its name in findings."""
        return f"GPU {self.number}"


def cards(want: Want, facts: Facts) -> list[Card]:
    """All that answer, in nvidia-smi's order; none where it does not tell."""
    if not isinstance(facts.gpus, list):
        return []
    recorded = slots(want)
    fresh = len(recorded)
    found = []
    for gpu in facts.gpus:
        number = gpu.index
        if recorded:
            number = list(recorded).index(gpu.slot) if gpu.slot in recorded else fresh
            fresh += gpu.slot not in recorded
        card = Card(number=number, gpu=gpu, sku=sku.of(gpu.name), recorded=recorded.get(gpu.slot))
        found.append(card)
    return found


def slots(want: Want) -> dict[str, baseline.Card]:
    """What was recorded, by slot, in the order of the numbers."""
    return {card.slot: card for card in want.baseline.gpus} if want.baseline else {}
