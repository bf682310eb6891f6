"""How GPUs are joined, drawn: a matrix, what its words say, and what it means."""

from __future__ import annotations

from collections.abc import Sequence

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


def drawing(
    host: str, topology: Topology, numbers: Sequence[int], missing: Sequence[str] = ()
) -> RenderableType:
    """All of it; a line between GPUs of different NUMA nodes.

    `numbers` are the GPUs', in the matrix's order; what is said of those missing stands below it.
    """
    count = len(topology.links)
    matrix = Table(title=host, title_justify="left", show_edge=False, pad_edge=False)
    for name in ("", *(f"GPU {number}" for number in numbers), "NUMA", "processors"):
        matrix.add_column(name, justify="left" if name in ("", "processors") else "center")
    for at, cells in enumerate(topology.links):
        node = topology.numa[at]
        matrix.add_row(
            f"GPU {numbers[at]}",
            *(_cell(link, own=at == other) for other, link in enumerate(cells)),
            "-" if node is None else str(node),
            plain(topology.cpus[at]) or "-",
            end_section=at + 1 < count and topology.numa[at + 1] != node,
        )
    gone = [Text(f"! {sentence}", "red") for sentence in missing]
    said = [Text(f"→ {sentence}") for sentence in meaning(topology, numbers)]
    return Group(matrix, Text(), *_legend(topology), Text(), *gone, *said)


def _cell(link: str, *, own: bool) -> Text:
    return Text("·", "dim") if own else Text(plain(link), STYLES.get(kind(link), ""))


def _legend(topology: Topology) -> list[Text]:
    """Of the words that occur, and no others."""
    return [
        Text.assemble((f"  {plain(one):<5}", STYLES.get(one, "")), KINDS.get(one, "unheard of"))
        for one in kinds(topology)
    ]
