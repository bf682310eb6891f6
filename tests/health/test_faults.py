"""Each fault turns exactly its rows, and no check is there that no fault can turn."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from provision import checks
from provision.checks.finding import advice
from tests.health import hosts
from tests.health.faults import FAULTS
from tests.infra import test_gpus, test_software

HOSTS = (hosts.pcie, hosts.recorded, hosts.unlisted, hosts.nvswitch)
NAMED = re.compile(r"[a-z]+\.(?!service$|toml$)[a-z0-9_]+")
"""A check's name, as its own file has it."""
OF_PLANNING = re.compile(r"state(\..*)?")


def wrong(rows):
    return {f"{row.id} {row.subject}": row.action.value for row in rows if not row.ok}


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.__name__)
def test_a_right_host_has_no_wrong_row(host):
    assert wrong(host().rows()) == {}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_turns_exactly_its_rows(name):
    fault = FAULTS[name]
    assert wrong(fault.host.rows(*fault.edits)) == fault.turns


@pytest.mark.parametrize("name", FAULTS)
def test_every_wrong_row_says_why_and_reads_as_a_sentence(name):
    fault = FAULTS[name]
    for row in fault.host.rows(*fault.edits):
        if not row.ok:
            assert row.reason
            assert re.fullmatch(r".+: .+ instead of .+", row.prose)


def test_a_gpu_that_fell_off_the_bus_has_its_host_rebooted_before_anybody_inspects_it():
    fault = FAULTS["Xid 79 of a GPU that is gone"]
    said = advice(fault.host.rows(*fault.edits))
    assert said == "reboot the host, then inspect what is left"


@pytest.mark.parametrize(
    ("name", "nvlink"), [("a card in another slot", False), ("an NVLink that is down", True)]
)
def test_only_where_there_is_nvlink_it_may_be_down(name, nvlink):
    fault = FAULTS[name]
    rows = [row for row in fault.host.rows(*fault.edits) if row.id == "gpu.links" and not row.ok]
    assert {"an NVLink is down" in row.reason for row in rows} == {nvlink}


def test_an_xid_says_how_long_its_row_stays():
    fault = FAULTS["Xid 48"]
    (row,) = [row for row in fault.host.rows(*fault.edits) if not row.ok]
    assert row.reason.endswith("; the row stays until the next boot, also once this is mended")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a small /dev/shm", "login: shm 64 MiB instead of at least 1 GiB"),
        ("little locked memory", "login: memlock 64 KiB instead of at least 8 MiB"),
        ("few open files", "login: nofile 1024 instead of at least 4096"),
    ],
)
def test_a_limit_has_its_unit(name, text):
    fault = FAULTS[name]
    assert [row.prose for row in fault.host.rows(*fault.edits) if not row.ok] == [text]


def written(*, active: bool = False) -> set[str]:
    """The names of checks that stand in the checks' own files: passive ones, or active ones."""
    folder = Path(checks.__file__).parent
    constants = (
        node.value
        for path in folder.glob("*.py")
        if (path.stem == "active") == active
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {text for text in constants if NAMED.fullmatch(text)}


def test_every_check_is_turned_by_a_fault():
    seen = {row.id for host in HOSTS for row in host().rows()} | written()
    turned = {row.partition(" ")[0] for fault in FAULTS.values() for row in fault.turns}
    left = {name for name in seen - turned if not OF_PLANNING.fullmatch(name)}
    assert left == set()


def test_every_check_is_asked_by_tests_infra_too():
    asked = {"gpu.count", *test_gpus.EACH.values(), *test_software.ASKED.values()}
    turned = {row.partition(" ")[0] for fault in FAULTS.values() for row in fault.turns}
    assert {name for name in turned - asked if not OF_PLANNING.fullmatch(name)} == set()
    assert asked <= turned


def test_there_are_as_many_faults_as_promised():
    assert len(FAULTS) >= 45
