"""Checks of GPUs: a row of each, those that are missing, and what is wrong with one."""

import dataclasses

import pytest
import samples
from checked import rows, said, seen
from samples import MODEL, WANT

from provision.checks.finding import Action
from provision.checks.recorded import record
from provision.inventory import Gpus
from provision.want import Want


def wanting(count, model=MODEL):
    gpus = Gpus(count=count, model=model) if count else None
    return Want(stack=WANT.stack, uv=WANT.uv, gpus=gpus, repository=WANT.repository)


def test_every_gpu_has_a_row_of_its_own():
    subjects = [subject for name, subject in rows() if name == "gpu.present"]
    assert subjects == ["GPU 0", "GPU 1"]


def test_a_gpu_that_is_missing_is_named_and_so_is_the_count():
    wrong = {key: row for key, row in rows(want=wanting(3)).items() if not row.ok}
    assert {key: said(row) for key, row in wrong.items()} == {
        ("gpu.count", "host"): ("3", "2", Action.INSPECT),
        ("gpu.present", "GPU 2"): ("present", "absent", Action.INSPECT),
    }
    assert "its number is a guess" in wrong["gpu.present", "GPU 2"].reason
    assert "--record-baseline" in wrong["gpu.present", "GPU 2"].reason


def test_a_gpu_that_was_recorded_is_missing_by_its_own_number():
    want = dataclasses.replace(wanting(2), baseline=record("h", seen()))
    left = samples.raw()["facts"]["gpus"]["value"][1:]
    found = rows(want=want, gpus={"status": "ok", "value": left})
    row = found["gpu.present", "GPU 0"]
    assert row.observed == "absent (slot 0000:06:00.0)"
    assert "guess" not in row.reason


def test_a_gpu_too_many_is_a_difference_too():
    wrong = [said(row) for row in rows(want=wanting(1)).values() if not row.ok]
    assert wrong == [("1", "2", Action.INSPECT)]


def test_without_expected_hardware_gpus_are_taken_as_they_are():
    found = rows(want=wanting(0))
    assert ("gpu.count", "host") not in found
    assert ("gpu.present", "GPU 1") in found
    assert all(row.ok for row in found.values())


OTHER = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"
GPU_FAULTS = {
    "another model": ({"name": OTHER}, "gpu.present", (MODEL, OTHER, Action.INSPECT)),
    "a narrower link": ({"link_width": 8}, "gpu.link_width", ("x16", "x8", Action.INSPECT)),
    "no persistence": (
        {"persistence": False},
        "gpu.persistence",
        ("on", "off", Action.RESTART),
    ),
    "memory errors": (
        {"ecc_uncorrectable": 3},
        "gpu.ecc_uncorrectable",
        ("0", "3", Action.RESET),
    ),
    "a pending remap": (
        {"remap_pending": True},
        "gpu.remap_pending",
        ("no", "yes", Action.RESET),
    ),
    "a failed remap": (
        {"remap_failure": True},
        "gpu.remap_failure",
        ("no", "yes", Action.INSPECT),
    ),
}


@pytest.mark.parametrize("case", GPU_FAULTS, ids=GPU_FAULTS)
def test_a_fault_of_one_gpu_is_a_row_of_that_gpu(case):
    fields, name, expected = GPU_FAULTS[case]
    wrong = {key: row for key, row in rows(cards=[(1, fields)]).items() if not row.ok}
    assert {key: said(row) for key, row in wrong.items()} == {(name, "GPU 1"): expected}


def test_a_link_that_runs_slower_while_idle_is_fine():
    assert all(row.ok for row in rows(cards=[(0, {"link_gen": 1, "link_gen_max": 5})]).values())


def test_a_link_whose_width_nobody_tells_is_inspected():
    row = rows(cards=[(0, {"link_width": None})])["gpu.link_width", "GPU 0"]
    assert (row.observed, row.action) == ("unknown", Action.INSPECT)
    assert row.reason


def test_a_model_without_ecc_has_no_rows_about_it():
    fields = dict.fromkeys(("ecc_uncorrectable", "remap_pending", "remap_failure"))
    found = rows(cards=[(0, fields)])
    assert all(row.ok for row in found.values())
    assert ("gpu.ecc_uncorrectable", "GPU 0") not in found
    assert ("gpu.ecc_uncorrectable", "GPU 1") in found
