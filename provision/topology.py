"""What a matrix of GPUs means for tensor parallelism and NCCL. Pure.

NCCL's default peer-to-peer level is PXB: its user guide, NCCL_P2P_LEVEL. What small messages cost
over PCIe: published measurements of 8 RTX PRO 6000 (rtx6kpro).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provision.facts import Topology

KINDS = {
    "NV": "NVLink, with the number of bonded links",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches, no host bridge",
    "PHB": "the processor's PCIe host bridge",
    "NODE": "several host bridges of one NUMA node",
    "SYS": "the link between sockets",
}
"""As nvidia-smi's legend has them, nearest first."""
DIRECT = ("NV", "PIX", "PXB")
"""Over these NCCL lets GPUs talk to each other unless told otherwise."""


def kind(link: str) -> str:
    """The kind of a link, whatever number is behind it: NV18 is NV."""
    return link.rstrip("0123456789") if link.startswith("NV") else link


def kinds(topology: Topology) -> list[str]:
    """Those that occur, nearest first."""
    found = {
        kind(link)
        for row, cells in enumerate(topology.links)
        for column, link in enumerate(cells)
        if row != column
    }
    known = [one for one in KINDS if one in found]
    return known + sorted(found - set(known))


def islands(topology: Topology, near: tuple[str, ...]) -> list[list[int]]:
    """GPUs in groups within which links of these kinds lead from each to each."""
    left = list(range(len(topology.links)))
    found = []
    while left:
        group = [left.pop(0)]
        for one in group:
            beside = [other for other in left if kind(topology.links[one][other]) in near]
            group += beside
            left = [other for other in left if other not in beside]
        found.append(sorted(group))
    return found


def meaning(topology: Topology, numbers: Sequence[int]) -> list[str]:
    """In sentences, the most important one first; `numbers` are the GPUs' in the matrix's order."""
    return list(_sentences(topology, numbers))


def _sentences(topology: Topology, numbers: Sequence[int]) -> Iterator[str]:
    count = len(topology.links)
    if count < 2:
        yield "one GPU: nothing to join"
        return
    there = kinds(topology)
    if there == ["NV"]:
        yield f"tensor parallelism over all {count} GPUs: every pair is joined by NVLink"
        yield "NCCL takes NVLink by itself; vLLM's custom all-reduce is possible"
        return
    direct = islands(topology, DIRECT)
    if len(direct) == 1:
        yield f"tensor parallelism over all {count} GPUs stays on PCIe switches or NVLink"
    else:
        sockets = islands(topology, tuple(one for one in KINDS if one != "SYS"))
        yield f"tensor parallelism is cheapest within {_listed(direct, numbers)}"
        if len(sockets) > 1:
            yield (
                f"beyond {_listed(sockets, numbers)} it crosses sockets, as over all {count} GPUs: "
                "an all-reduce of 8 KB takes about 58 µs there, 24 µs behind switches alone "
                "(published, of a host with 8)"
            )
        yield (
            "NCCL sends what leaves these groups through host memory, since its P2P level is PXB: "
            f"try NCCL_P2P_LEVEL={there[-1]}, and keep what measures better"
        )
    if count > 2:
        yield (
            f"vLLM's custom all-reduce is off: {count} GPUs, not all joined by NVLink; it must "
            "stay off"
        )
    else:
        yield "vLLM's custom all-reduce is possible where peer-to-peer access is"


def _listed(groups: list[list[int]], numbers: Sequence[int]) -> str:
    return " | ".join(_range([numbers[at] for at in group]) for group in groups)


def _range(group: list[int]) -> str:
    """GPU 0-3, or each by its number where they don't follow each other."""
    if len(group) > 1 and group == list(range(group[0], group[-1] + 1)):
        return f"GPU {group[0]}-{group[-1]}"
    return f"GPU {', '.join(map(str, group))}"
