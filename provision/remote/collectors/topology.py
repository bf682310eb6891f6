"""How the GPUs are connected, from `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from typing import Any

from provision.remote.command import Failed, output
from provision.remote.probe import Query

NAME = "topology"
TIMEOUT = 15.0
"""Seconds, as for nvidia-smi's XML."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
GPU = re.compile(r"GPU\d+")


def collect(_query: Query) -> dict[str, Any]:
    return parse_topology(output(["nvidia-smi", "topo", "-m"], timeout=TIMEOUT))


def parse_topology(text: str) -> dict[str, Any]:
    """GPU by GPU; network cards have rows and columns too, which don't count.

    A GPU's processors are '' where nvidia-smi names none, as in some virtual machines.
    """
    rows = [
        [cell.strip() for cell in line.split("\t")] for line in COLOUR.sub("", text).splitlines()
    ]
    header = next((row for row in rows if "GPU0" in row[1:]), None)
    if header is None:
        raise Failed(f"nvidia-smi topo prints no matrix: {text.strip()[:80]!r}")
    columns = [column for column, name in enumerate(header) if GPU.fullmatch(name)]
    gpus = [row for row in rows if GPU.fullmatch(row[0])]
    if [row[0] for row in gpus] != [header[column] for column in columns]:
        raise Failed(f"nvidia-smi topo prints {len(gpus)} rows for {len(columns)} GPUs")
    return {
        "links": [[_cell(row, column) for column in columns] for row in gpus],
        "numa": [_node(_named(row, header, "NUMA Affinity")) for row in gpus],
        "cpus": [_named(row, header, "CPU Affinity") for row in gpus],
    }


def _cell(row: list[str], column: int) -> str:
    if column >= len(row) or not row[column]:
        raise Failed(f"nvidia-smi topo's row {row[0]} is cut short")
    return row[column]


def _named(row: list[str], header: list[str], name: str) -> str:
    """The cell below a heading that older drivers lack; '' where it says nothing."""
    column = header.index(name) if name in header else len(row)
    text = row[column] if column < len(row) else ""
    return "" if text == "N/A" else text


def _node(text: str) -> int | None:
    """The one NUMA node; None where there is none, or several such as '0-1'."""
    return int(text) if text.isdigit() else None
