"""The figures as tables: one per number of hosts and distance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Case, Sample
from benchmarks.sides import SIDES

COLUMNS = (
    *("wall s", "/ floor", "/ ours", "CPU s", "/ ours"),
    *("logins", "commands", "round trips", "kB up", "kB down"),
)
WIDTH = 130
"""Characters that a table needs."""


def show(console: Console, about: Mapping[str, Any], medians: Mapping[Case, Sample]) -> None:
    """Print what was measured, where, and with what."""
    machine, versions = about["machine"], about["versions"]
    console.print(
        f"{about['date']}, revision {about['revision']}, {about['checks']} checks per host\n"
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['system']}, load {machine['load']:.1f} before\n"
        f"{', '.join(f'{name} {version}' for name, version in versions.items())}\n"
        f"{about['hosts']}"
    )
    for count, rtt in dict.fromkeys((case.hosts, case.rtt) for case in medians):
        there = {
            case.side: sample
            for case, sample in medians.items()
            if (case.hosts, case.rtt) == (count, rtt)
        }
        console.print(_table(count, rtt, there))


def _table(hosts: int, rtt: float, there: Mapping[str, Sample]) -> Table:
    many = "1 host" if hosts == 1 else f"{hosts} hosts"
    title = f"{many}, {rtt:g} ms; logins and what follows them per host"
    table = Table(title=title, title_justify="left", show_edge=False)
    table.add_column("side")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for side in SIDES:
        if side.name not in there:
            continue
        sample, ours, floor = there[side.name], there["ours"], there["floor"]
        table.add_row(
            side.label,
            f"{sample.wall:.2f}",
            f"{sample.wall / floor.wall:.2f}",
            f"{sample.wall / ours.wall:.2f}",
            f"{sample.cpu:.2f}",
            f"{sample.cpu / ours.cpu:.2f}",
            *(
                f"{value / hosts:.4g}"
                for value in (
                    *(sample.logins, sample.commands, sample.round_trips),
                    *(sample.up / 1000, sample.down / 1000),
                )
            ),
        )
    return table
