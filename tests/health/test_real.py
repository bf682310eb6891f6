"""A real machine, 2 H200 with driver 580.159.04, as it was probed and made to work on 2026-11-30.

It is no server of a fleet: no systemd, no packages of the driver, a clock that nobody keeps. Names
and identifiers are replaced.
"""

import json
from pathlib import Path

import pytest

from provision import checks, facts, planner, stack, topology
from provision.checks import active
from provision.checks.sku import of
from provision.facts.trials import parse
from provision.inventory import Gpus
from provision.want import Want

HERE = Path(__file__).parent
RAW = json.loads((HERE / "h200x2.facts.json").read_text())
TRIALS = json.loads((HERE / "h200x2.trials.json").read_text())
WANT = Want(
    stack=stack.load("torch211-cu130"),
    uv=stack.load_uv(),
    gpus=Gpus(count=2, model="NVIDIA H200"),
)


def test_what_it_lacks_is_told_and_nothing_else():
    plan = planner.plan("h", WANT, RAW)
    rows = checks.check(WANT, facts.parse(RAW), plan)
    wrong = {(row.id, row.action.value) for row in rows if not row.ok}
    assert wrong == {
        ("state.preflight", "inspect"),
        ("driver.package", "provision"),
        ("service", "inspect"),
        ("clock", "restart"),
    }
    assert {row.subject for row in rows if row.id.startswith("gpu.")} >= {"GPU 0", "GPU 1"}


@pytest.mark.parametrize("row", active.check(WANT, facts.parse(RAW), parse(TRIALS)), ids=str)
def test_its_gpus_work(row):
    assert row.ok, row


def test_without_peer_to_peer_all_reduces_take_the_slower_way():
    (row,) = [
        row
        for row in active.check(WANT, facts.parse(RAW), parse(TRIALS))
        if row.id == "active.latency"
    ]
    assert "10.1 µs (15.7 µs without P2P)" in row.observed


def test_its_memory_is_what_the_profile_has_to_the_mib():
    assert {gpu.memory_total for gpu in facts.parse(RAW).gpus} == {of("NVIDIA H200").memory_mib}


def test_its_topology_is_nvlink():
    there = facts.parse(RAW)
    assert there.topology.links == [["X", "NV18"], ["NV18", "X"]]
    assert topology.meaning(there.topology, [0, 1])[0].endswith("every pair is joined by NVLink")
