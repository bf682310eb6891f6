"""What the driver reported of each GPU in this boot, with NVIDIA's action for it (`xids.toml`).

The kernel's log does not say that a report was answered: a row stays until the next boot.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import RootModel

from provision import tables
from provision.checks.cards import cards, slots
from provision.checks.finding import Action, Finding, judge, unknown, unseen, worst
from provision.facts import Facts, Xid
from provision.stack import Table, validated
from provision.want import Want

FILE = Path(__file__).parent / "xids.toml"
STAYS = "the row stays until the next boot, also once this is mended"


class Report(Table):
    """One kind of report."""

    name: str
    action: Literal["ignore", "restart", "reset", "reboot", "inspect"]


@cache
def catalogue() -> dict[int, Report]:
    """Number → what it means. Raises UsageError naming the file, and the line or the field."""
    return validated(RootModel[dict[int, Report]], tables.read(FILE), FILE.name).root


def check(want: Want, facts: Facts) -> list[Finding]:
    """A row for each GPU, and for each slot with reports whose GPU answers no more."""
    if not isinstance(facts.xids, list):
        return [unknown("gpu.xid", "host", expected="no Xid", reason=unseen(facts.xids))]
    names = {slot: f"GPU {number}" for number, slot in enumerate(slots(want))}
    names |= {card.gpu.slot: card.subject for card in cards(want, facts)}
    reported: dict[str, list[Xid]] = {subject: [] for subject in names.values()}
    for xid in facts.xids:
        named = (subject for slot, subject in names.items() if slot.startswith(xid.slot))
        reported.setdefault(next(named, f"slot {xid.slot}"), []).append(xid)
    return [_row(subject, xids) for subject, xids in reported.items()]


def _row(subject: str, xids: list[Xid]) -> Finding:
    rows = [_one(subject, xid) for xid in xids]
    if not rows:
        return _said(subject, Action.NONE, "no Xid", "")
    return _said(
        subject,
        worst(rows),
        "; ".join(row.observed for row in rows),
        f"{'; '.join(row.reason for row in rows)}; {STAYS}",
    )


def _one(subject: str, xid: Xid) -> Finding:
    known = catalogue().get(xid.code)
    name = known.name if known else "not in our list: see NVIDIA's XID Errors"
    action = Action(known.action) if known else Action.INSPECT
    times = f", {xid.count} times" if xid.count > 1 else ""
    return _said(subject, action, f"{xid.code} ({name}){times}", xid.text)


def _said(subject: str, action: Action, observed: str, reason: str) -> Finding:
    return judge(
        "gpu.xid",
        subject,
        action is Action.NONE,
        expected="no Xid",
        observed=observed,
        action=action,
        reason=reason,
        noun="Xid" if action is not Action.NONE else "has",
    )
