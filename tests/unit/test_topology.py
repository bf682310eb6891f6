"""How GPUs are joined: what that means, and how it is drawn."""

import pytest
from rich.console import Console
from samples import accepted, capture

from provision import topology
from provision.remote.collectors.topology import parse_topology
from provision.report.topology import drawing


def matrix(*rows, numa=None):
    """Rows such as 'X PIX SYS'."""
    links = [row.split() for row in rows]
    value = {"links": links, "numa": numa or [0] * len(links), "cpus": ["0-7"] * len(links)}
    return accepted("topology", value)


def captured(name):
    return accepted("topology", parse_topology(capture(name)))


SOCKETS = captured("topo-8-gpus-two-sockets.txt")
NVLINK = captured("topo-h200x2-nvlink-ansi.txt")


def test_kinds_that_occur_nearest_first():
    assert topology.kinds(SOCKETS) == ["PIX", "NODE", "SYS"]
    assert topology.kinds(NVLINK) == ["NV"]
    assert topology.kinds(matrix("X ODD", "ODD X")) == ["ODD"]


def test_islands_hold_whoever_can_be_reached():
    assert topology.islands(SOCKETS, ("PIX",)) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert topology.islands(SOCKETS, ("PIX", "NODE")) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    chain = matrix("X PIX SYS", "PIX X PIX", "SYS PIX X")
    assert topology.islands(chain, ("PIX",)) == [[0, 1, 2]]
    apart = matrix("X SYS PIX", "SYS X SYS", "PIX SYS X")
    assert topology.islands(apart, ("PIX",)) == [[0, 2], [1]]


def meaning(found):
    return topology.meaning(found, range(len(found.links)))


def says(found, *words):
    return [any(word in sentence for sentence in meaning(found)) for word in words]


def test_gpus_behind_switches_of_two_sockets():
    assert all(
        says(
            SOCKETS,
            "cheapest within GPU 0-1 | GPU 2-3 | GPU 4-5 | GPU 6-7",
            "beyond GPU 0-3 | GPU 4-7 it crosses sockets",
            "NCCL_P2P_LEVEL=SYS",
            "custom all-reduce is off: 8 GPUs",
        )
    )


def test_gpus_joined_by_nvlink():
    assert all(says(NVLINK, "all 2 GPUs: every pair", "custom all-reduce is possible"))
    assert not any(says(NVLINK, "NCCL_P2P_LEVEL", "sockets", "is off"))


def test_all_gpus_behind_switches_of_one_socket():
    found = matrix("X PIX PXB", "PIX X PXB", "PXB PXB X")
    assert all(says(found, "stays on PCIe switches", "custom all-reduce is off: 3 GPUs"))
    assert not any(says(found, "sockets", "NCCL_P2P_LEVEL"))


def test_two_gpus_of_two_sockets():
    found = matrix("X SYS", "SYS X", numa=[0, 1])
    assert all(says(found, "within GPU 0 | GPU 1", "custom all-reduce is possible where"))


def test_gpus_keep_their_numbers_and_those_there_are_counted():
    found = matrix("X PIX SYS SYS", "PIX X SYS SYS", "SYS SYS X PIX", "SYS SYS PIX X")
    said = topology.meaning(found, [0, 1, 3, 4])
    assert "within GPU 0-1 | GPU 3-4" in said[0]
    assert "beyond GPU 0-1 | GPU 3-4 it crosses sockets, as over all 4 GPUs" in said[1]
    assert not any("over 8 GPUs" in sentence for sentence in said)


def test_one_gpu_has_nothing_to_join():
    assert meaning(matrix("X")) == ["one GPU: nothing to join"]


@pytest.fixture
def drawn():
    def draw(found, width=120, numbers=None, missing=()):
        console = Console(width=width, no_color=True)
        with console.capture() as caught:
            console.print(drawing("h", found, numbers or range(len(found.links)), missing))
        return caught.get().splitlines()

    return draw


def test_the_matrix_has_a_row_for_each_gpu_and_a_line_between_the_sockets(drawn):
    lines = drawn(SOCKETS)
    rows = [line for line in lines if line.startswith("GPU ") and "│" in line]
    cells = [[cell.strip() for cell in row.split("│")] for row in rows]
    assert [row[0] for row in cells] == [f"GPU {number}" for number in range(8)]
    assert cells[0][1:9] == ["·", "PIX", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
    assert cells[4][9:] == ["1", "64-127,192-255"]
    between = [line for line in lines if set(line.strip()) == {"─", "┼"}]
    assert len(between) == 1
    assert lines.index(between[0]) == lines.index(rows[3]) + 1


def test_the_legend_has_the_words_that_occur(drawn):
    text = "\n".join(drawn(SOCKETS))
    assert "SYS  the link between sockets" in text
    assert "PHB" not in text
    assert "→ tensor parallelism" in text


def test_the_matrix_has_the_gpus_own_numbers_and_what_is_missing_below(drawn):
    lines = drawn(NVLINK, numbers=[0, 2], missing=["GPU 1 is absent (slot 0000:07:00.0)"])
    rows = [line.split("│")[0].strip() for line in lines if line.startswith("GPU ")]
    assert rows == ["GPU 0", "GPU 2"]
    assert "! GPU 1 is absent (slot 0000:07:00.0)" in lines


def test_what_is_not_known_is_drawn_as_such(drawn):
    found = accepted(
        "topology", {"links": [["X", "PIX"], ["PIX", "X"]], "numa": [None, 0], "cpus": ["", "0"]}
    )
    first = next(line for line in drawn(found) if line.startswith("GPU 0 "))
    assert [cell.strip() for cell in first.split("│")] == ["GPU 0", "·", "PIX", "-", "-"]
