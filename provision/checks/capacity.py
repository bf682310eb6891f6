"""What each GPU has: memory, BAR1, power, ECC and its PCIe link.

Against what its model has (`skus/`), or what was recorded of this host where slots and owners
decide: the width and generation of a slot, a power limit that was set on purpose.
"""

from __future__ import annotations

from provision.checks.cards import Card, cards
from provision.checks.finding import Action, Finding, judge, unknown
from provision.facts import Facts
from provision.want import Want

SHOWN = 0.98
"""Of the memory that nvidia-smi showed of the model, what it must at least show. What drivers keep
to themselves differs: two views of one B200, in a public report, are 183359 and 182642 MiB."""
BUSY = 10
"""Percent of utilisation from which on a link is not at rest. An idle GPU shows Gen1."""


def check(want: Want, facts: Facts) -> list[Finding]:
    return [row for card in cards(want, facts) for row in _rows(card)]


def _rows(card: Card) -> list[Finding]:
    rows = [_profile(card), _width(card), _generation(card), _bar1(card)]
    if card.sku:
        rows.append(_memory(card, card.sku.memory_mib))
        if card.sku.ecc is not None:
            rows.append(_ecc(card, expected=card.sku.ecc))
    limit = card.recorded.power_limit if card.recorded else card.sku.power_w if card.sku else None
    return [*rows, _power(card, limit)] if limit is not None else rows


def _profile(card: Card) -> Finding:
    """Without a profile or a baseline nobody knows what is right."""
    return judge(
        "gpu.profile",
        card.subject,
        bool(card.sku or card.recorded),
        expected="one that is known",
        observed=card.gpu.name,
        action=Action.INSPECT,
        reason="no profile in provision/checks/skus: when the host is right, "
        "invoke verify --record-baseline",
        noun="model",
    )


def _width(card: Card) -> Finding:
    gpu = card.gpu
    expected = gpu.link_width_max
    if card.sku:
        expected = card.sku.link_width
    if card.recorded and card.recorded.link_width:
        expected = card.recorded.link_width
    if gpu.link_width is None or expected is None:
        reason = "nvidia-smi does not tell the width of its PCIe link"
        return unknown(
            "gpu.link_width", card.subject, expected="full width", reason=reason, noun="PCIe"
        )
    return judge(
        "gpu.link_width",
        card.subject,
        gpu.link_width >= expected,
        expected=f"x{expected}",
        observed=f"x{gpu.link_width}",
        action=Action.INSPECT,
        reason=f"slot {gpu.slot}: reseat the card or its riser",
        noun="PCIe",
    )


def _generation(card: Card) -> Finding:
    """What GPU and slot can reach; under load also what they do."""
    gpu = card.gpu
    expected = gpu.link_gen_gpu
    if card.sku:
        expected = card.sku.link_gen
    if card.recorded and card.recorded.link_gen:
        expected = card.recorded.link_gen
    busy = (gpu.utilisation or 0) >= BUSY
    have = gpu.link_gen if busy else gpu.link_gen_max
    if have is None or expected is None:
        reason = "nvidia-smi does not tell the generation of its PCIe link"
        return unknown("gpu.link_gen", card.subject, expected="full", reason=reason, noun="PCIe")
    slow = gpu.link_gen_host is not None and gpu.link_gen_host < expected
    return judge(
        "gpu.link_gen",
        card.subject,
        have >= expected,
        expected=f"Gen{expected}",
        observed=f"Gen{have}{' under load' if busy else ''}",
        action=Action.INSPECT,
        reason=f"slot {gpu.slot} gives no more: its setting in the firmware, or a riser"
        if slow
        else f"slot {gpu.slot}: the link was trained down: reseat the card or its riser",
        noun="PCIe",
    )


def _bar1(card: Card) -> Finding:
    """All memory is behind BAR1: peer-to-peer over PCIe goes through it."""
    gpu = card.gpu
    if gpu.bar1_total is None or gpu.memory_total is None:
        reason = "nvidia-smi does not tell its size"
        return unknown("gpu.bar1", card.subject, expected="all memory", reason=reason, noun="BAR1")
    return judge(
        "gpu.bar1",
        card.subject,
        gpu.bar1_total >= gpu.memory_total,
        expected=f"at least {gpu.memory_total} MiB",
        observed=f"{gpu.bar1_total} MiB",
        action=Action.INSPECT,
        reason="Above 4G Decoding or Resizable BAR is off in the firmware",
        noun="BAR1",
    )


def _memory(card: Card, usual: int) -> Finding:
    least = int(usual * SHOWN)
    have = card.gpu.memory_total
    if have is None:
        reason = "nvidia-smi does not tell its size"
        return unknown("gpu.memory", card.subject, expected=f"{usual} MiB", reason=reason)
    return judge(
        "gpu.memory",
        card.subject,
        have >= least,
        expected=f"at least {least} MiB",
        observed=f"{have} MiB",
        action=Action.INSPECT,
        reason=f"the model shows {usual} MiB: a part is not usable, or it is another card",
    )


def _power(card: Card, limit: float) -> Finding:
    have = card.gpu.power_limit
    if have is None:
        reason = "nvidia-smi does not tell it"
        return unknown("gpu.power_limit", card.subject, expected=f"{limit:g} W", reason=reason)
    return judge(
        "gpu.power_limit",
        card.subject,
        have >= limit,
        expected=f"{limit:g} W",
        observed=f"{have:g} W",
        action=Action.INSPECT,
        reason=f"somebody lowered it: nvidia-smi --id={card.gpu.index} --power-limit={limit:g}; "
        "on purpose: invoke verify --record-baseline",
    )


def _ecc(card: Card, *, expected: bool) -> Finding:
    words = {True: "on", False: "off", None: "not told"}
    return judge(
        "gpu.ecc",
        card.subject,
        card.gpu.ecc is expected,
        expected=words[expected],
        observed=words[card.gpu.ecc],
        action=Action.RESET,
        reason=f"nvidia-smi --id={card.gpu.index} --ecc-config={int(expected)}, then a reset",
        noun="ECC",
    )
