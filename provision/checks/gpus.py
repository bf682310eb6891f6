"""One row per GPU that the inventory expects, and a few per GPU for its health.

A link may run slower while a GPU idles, never narrower: width is compared, generation is not.
Uncorrectable errors, pending and failed row remaps are NVIDIA's own criteria for a reset or a
replacement (NVIDIA GPU Memory Error Management).
"""

from __future__ import annotations

from provision.checks.finding import Action, Finding, compare, unknown
from provision.facts import Facts, Gpu, Unknown
from provision.want import Want


def check(want: Want, facts: Facts) -> list[Finding]:
    expected = want.gpus.count if want.gpus else None
    if not isinstance(facts.gpus, list):
        reason = facts.gpus.reason if isinstance(facts.gpus, Unknown) else "there is no nvidia-smi"
        return [
            unknown("gpu.count", "host", expected=expected or "GPUs", reason=reason),
            *(
                unknown("gpu.present", f"GPU {index}", expected="present", reason=reason)
                for index in range(expected or 0)
            ),
        ]
    rows = []
    if want.gpus:
        rows.append(
            compare(
                "gpu.count",
                "host",
                expected=want.gpus.count,
                observed=len(facts.gpus),
                action=Action.INSPECT,
                reason="the inventory expects another number of GPUs",
            )
        )
    by_index = {gpu.index: gpu for gpu in facts.gpus}
    for index in sorted({*by_index, *range(expected or 0)}):
        gpu = by_index.get(index)
        rows += _rows(want, gpu) if gpu else [_absent(index)]
    return rows


def _absent(index: int) -> Finding:
    return Finding(
        id="gpu.present",
        subject=f"GPU {index}",
        expected="present",
        observed="absent",
        action=Action.INSPECT,
        reason="fallen off the bus, unseated or without power",
    )


def _width(gpu: Gpu, subject: str) -> Finding:
    if gpu.link_width is None or gpu.link_width_max is None:
        reason = "nvidia-smi does not tell the width of its PCIe link"
        return unknown("gpu.link_width", subject, expected="full width", reason=reason)
    return compare(
        "gpu.link_width",
        subject,
        expected=f"x{gpu.link_width_max}",
        observed=f"x{gpu.link_width}",
        action=Action.INSPECT,
        reason=f"slot {gpu.slot}: reseat the card or its riser",
    )


def _rows(want: Want, gpu: Gpu) -> list[Finding]:
    subject = f"GPU {gpu.index}"
    model = want.gpus.model if want.gpus else gpu.name
    rows = [
        compare(
            "gpu.present",
            subject,
            expected=model,
            observed=gpu.name,
            action=Action.INSPECT,
            reason="another model than the inventory expects",
        ),
        _width(gpu, subject),
        compare(
            "gpu.persistence",
            subject,
            expected=True,
            observed=gpu.persistence,
            action=Action.RESTART,
            reason="nvidia-persistenced does not hold this GPU",
        ),
    ]
    health = (
        ("gpu.ecc_uncorrectable", gpu.ecc_uncorrectable, 0, Action.RESET, "memory errors"),
        ("gpu.remap_pending", gpu.remap_pending, False, Action.RESET, "a row remap is pending"),
        ("gpu.remap_failure", gpu.remap_failure, False, Action.INSPECT, "a row remap failed"),
    )
    rows += [
        compare(name, subject, expected=good, observed=seen, action=action, reason=reason)
        for name, seen, good, action, reason in health
        if seen is not None  # a model without ECC has none of these
    ]
    return rows
