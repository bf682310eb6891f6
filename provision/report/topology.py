"""How GPUs are joined, drawn: a matrix, what its words say, and what it means."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from provision.facts import Topology
from provision.report.plain import plain
from provision.topology import KINDS, kind, kinds, meaning

STYLES = {
    "NV": "bold green",
    "PIX": "green",
    "PXB": "cyan",
    "PHB": "yellow",
    "NODE": "yellow",
    "SYS": "red",
}


def drawing(host: str, topology: Topology) -> RenderableType:
    """All of it; a line between GPUs of different NUMA nodes."""
    count = len(topology.links)
    matrix = Table(title=host, title_justify="left", show_edge=False, pad_edge=False)
    for name in ("", *(f"GPU {number}" for number in range(count)), "NUMA", "processors"):
        matrix.add_column(name, justify="left" if name in ("", "processors") else "center")
    for number, cells in enumerate(topology.links):
        node = topology.numa[number]
        matrix.add_row(
            f"GPU {number}",
            *(_cell(link, own=number == other) for other, link in enumerate(cells)),
            "-" if node is None else str(node),
            plain(topology.cpus[number]) or "-",
            end_section=number + 1 < count and topology.numa[number + 1] != node,
        )
    return Group(matrix, Text(), *_legend(topology), Text(), *_meaning(topology))


def _cell(link: str, *, own: bool) -> Text:
    return Text("·", "dim") if own else Text(plain(link), STYLES.get(kind(link), ""))


def _legend(topology: Topology) -> list[Text]:
    """Of the words that occur, and no others."""
    return [
        Text.assemble((f"  {plain(one):<5}", STYLES.get(one, "")), KINDS.get(one, "unheard of"))
        for one in kinds(topology)
    ]


def _meaning(topology: Topology) -> list[Text]:
    return [Text(f"→ {sentence}") for sentence in meaning(topology)]
