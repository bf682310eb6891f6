"""Checks: for each, what is right, what is wrong, and what could not be found out."""

import dataclasses
import json

import pytest
import samples
from samples import ABSENT, DRIVER, MODEL, TIMEOUT, WANT

from provision import checks, facts
from provision.checks.finding import Action, compare, unknown
from provision.checks.recorded import record
from provision.inventory import Gpus
from provision.plan import Change, Plan, Round, Stage
from provision.want import Want

UNIT = "nvidia-persistenced.service"
LOCKED = WANT.stack.locks["main"].versions("3.11.2")
DISTRIBUTIONS = f"{len(LOCKED)} distributions as locked"
EMPTY = Plan(host="h", stack="lab", rounds=())


def seen(*promises, cards=(), **answers):
    """The finished host's facts; with what differs, also of single GPUs."""
    found = samples.raw(*promises, **answers)
    for index, fields in cards:
        found["facts"]["gpus"]["value"][index].update(fields)
    return facts.parse(found)


def rows(*promises, want=WANT, plan=EMPTY, **more):
    return {(r.id, r.subject): r for r in checks.check(want, seen(*promises, **more), plan)}


def said(row):
    return (row.expected, row.observed, row.action)


def test_a_host_that_is_right_has_only_rows_that_are():
    assert [row for row in rows().values() if not row.ok] == []


def test_every_row_is_about_something_of_its_own():
    found = checks.check(WANT, seen(), EMPTY)
    assert len(found) == len({(row.id, row.subject) for row in found})


# --- one fault, one row ------------------------------------------------------------------------

FAULTS = {
    "another module": (
        {"driver": {"loaded": "1.2"}},
        ("driver.module", "host"),
        (DRIVER, "1.2", Action.PROVISION),
    ),
    "no module": (
        {"driver": {"loaded": None}},
        ("driver.module", "host"),
        (DRIVER, "none", Action.PROVISION),
    ),
    "the proprietary module": (
        {"driver": {"flavour": "proprietary"}},
        ("driver.flavour", "host"),
        ("open", "proprietary", Action.PROVISION),
    ),
    "another library": (
        {"driver": {"library": "1.2"}},
        ("driver.library", "host"),
        (DRIVER, "1.2", Action.PROVISION),
    ),
    "a candidate that an upgrade would take": (
        {"apt": {"policy": {"nvidia-open": {"candidate": "595.58.03-1"}}}},
        ("driver.pinned", "nvidia-open"),
        (f"{DRIVER}-1", "595.58.03-1", Action.INSPECT),
    ),
    "no package": (
        {"dpkg": {"packages": {"nvidia-open": None}}},
        ("driver.package", "nvidia-open"),
        (f"{DRIVER}-1", "not installed", Action.PROVISION),
    ),
    "NVML of another driver": (
        {"nvml": {"driver": "1.2"}},
        ("driver.nvml", "nvidia-smi"),
        (DRIVER, "1.2", Action.REBOOT),
    ),
    "NVML and module that differ": (
        {"nvml": {"exit": 18, "message": "Driver/library version mismatch", "driver": DRIVER}},
        ("driver.nvml", "nvidia-smi"),
        (DRIVER, "exit 18", Action.REBOOT),
    ),
    "a toolkit without nvcc": (
        {"toolkits": {"installed": {"12.8": None}}},
        ("toolkit", "CUDA 12.8"),
        ("nvcc 12.8", "no nvcc", Action.PROVISION),
    ),
    "a toolkit's nvcc of another release": (
        {"toolkits": {"installed": {"12.8": "12.80.1"}}},
        ("toolkit", "CUDA 12.8"),
        ("nvcc 12.8", "nvcc 12.80.1", Action.PROVISION),
    ),
    "no environment": (
        {"environments": {"main": None}},
        ("environment", "main"),
        (DISTRIBUTIONS, "0 distributions as locked", Action.PROVISION),
    ),
    "a distribution of another version": (
        {"environments": {"main": {"distributions": {"numpy": "1.0"}}}},
        ("environment", "main"),
        (DISTRIBUTIONS, f"{len(LOCKED) - 1} distributions as locked", Action.PROVISION),
    ),
    "a distribution that is gone": (
        {"environments": {"main": {"distributions": {"numpy": None}}}},
        ("environment", "main"),
        (DISTRIBUTIONS, f"{len(LOCKED) - 1} distributions as locked", Action.PROVISION),
    ),
    "a distribution beside the lock": (
        {"environments": {"main": {"distributions": {"evil": "6.6"}}}},
        ("environment", "main"),
        (DISTRIBUTIONS, f"{DISTRIBUTIONS}, and evil", Action.PROVISION),
    ),
    "no persistence daemon": (
        {"units": {UNIT: None}},
        ("service", UNIT),
        ("active, enabled", "no such unit", Action.RESTART),
    ),
    "a persistence daemon that has failed": (
        {"units": {UNIT: {"active": "failed"}}},
        ("service", UNIT),
        ("active, enabled", "failed, enabled", Action.RESTART),
    ),
}


def test_every_package_of_the_driver_is_held_to_its_pin():
    pinned = {subject for name, subject in rows() if name == "driver.pinned"}
    installed = samples.raw()["facts"]["dpkg"]["value"]["packages"]
    assert pinned == {n for n in WANT.stack.system.driver.debian.pinned if installed.get(n)}
    assert "nvidia-modprobe" in pinned
    moved = {"apt": {"policy": {"nvidia-modprobe": {"candidate": "595.58.03-1"}}}}
    row = rows(moved)["driver.pinned", "nvidia-modprobe"]
    assert row.prose == (f"nvidia-modprobe: apt's candidate is 595.58.03-1 instead of {DRIVER}-1")
    assert "apt-cache policy nvidia-modprobe" in row.reason


@pytest.mark.parametrize("case", FAULTS, ids=FAULTS)
def test_one_fault_is_one_row_with_its_action(case):
    promise, key, expected = FAULTS[case]
    wrong = {key: row for key, row in rows(promise).items() if not row.ok}
    assert list(wrong) == [key]
    assert said(wrong[key]) == expected
    assert wrong[key].reason


def test_a_package_of_another_version_is_one_fault_that_provisioning_mends():
    promise = {"dpkg": {"packages": {"nvidia-open": {"version": "1.2-1"}}}}
    wrong = {key: said(row) for key, row in rows(promise).items() if not row.ok}
    assert wrong == {("driver.package", "nvidia-open"): (f"{DRIVER}-1", "1.2-1", Action.PROVISION)}


def test_nvml_s_own_message_is_the_reason():
    row = rows({"nvml": {"exit": 18, "message": "version mismatch"}})["driver.nvml", "nvidia-smi"]
    assert row.reason == "version mismatch"


@pytest.mark.parametrize("status", ["half-installed", "unpacked", "half-configured"])
def test_a_package_that_is_not_properly_installed_is_not_as_wanted(status):
    found = rows({"dpkg": {"packages": {"nvidia-open": {"status": status}}}})
    assert not found["driver.package", "nvidia-open"].ok


# --- three CUDAs ---------------------------------------------------------------------------------


TORCH = {"torch": "2.9.1", "nvidia-cuda-runtime-cu12": "12.8.90"}


def three(distributions, cuda, *gone):
    """The row of driver, toolkits and torch, on a host from which some toolkits are gone."""
    found = rows(
        {"nvml": {"cuda": cuda}, "toolkits": {"installed": dict.fromkeys(gone)}},
        {"environments": {"main": {"distributions": distributions}}},
    )
    return found["cuda", "host"]


@pytest.mark.parametrize(
    ("distributions", "cuda", "gone", "observed", "well"),
    [
        ({}, "13.1", (), "driver up to 13.1, toolkits 12.8, 13.1, torch in no environment", True),
        (TORCH, "13.1", (), "driver up to 13.1, toolkits 12.8, 13.1, torch 12.8 (main)", True),
        # Minor versions run on every driver of their major.
        (TORCH, "12.2", ("13.1",), "driver up to 12.2, toolkits 12.8, torch 12.8 (main)", True),
        (TORCH, "12.9", (), "driver up to 12.9, toolkits 12.8, 13.1, torch 12.8 (main)", False),
        (TORCH, "11.8", ("13.1", "12.8"), "up to 11.8, toolkits none, torch 12.8 (main)", False),
        # A torch for processors alone brings none.
        ({"torch": "2.9.1"}, "13.1", (), "toolkits 12.8, 13.1, torch without CUDA (main)", True),
    ],
)
def test_driver_toolkits_and_torch_have_a_cuda_each(distributions, cuda, gone, observed, well):
    row = three(distributions, cuda, *gone)
    assert observed in row.observed
    assert row.ok is well


def test_a_newer_toolkit_that_the_stack_does_not_want_is_shown_and_no_fault():
    found = rows({"toolkits": {"installed": {"14.0": "14.0.12"}}})["cuda", "host"]
    assert "toolkits 12.8, 13.1, 14.0" in found.observed
    assert found.ok


def test_a_driver_that_states_no_cuda_is_not_taken_for_fine():
    row = three(TORCH, None)
    assert (row.ok, row.observed) == (False, "unknown")
    assert row.reason == "nvidia-smi states no CUDA version"


# --- what could not be found out ---------------------------------------------------------------

CUDA = ("cuda", "host")
EXTENSIONS = ("environment.extensions", "main cab0508cf67a-1")
UNSEEN = {
    "driver": [("driver.module", "host")],
    "dpkg": [("driver.package", "host"), ("driver.pinned", "host")],
    "apt": [("driver.pinned", "host")],
    "nvml": [("driver.nvml", "host"), CUDA],
    "gpus": [("gpu.count", "host"), ("gpu.present", "GPU 0"), ("gpu.present", "GPU 1"), EXTENSIONS],
    "toolkits": [("toolkit", f"CUDA {release}") for release in WANT.stack.toolkit] + [CUDA],
    "environments": [CUDA, ("environment", "main")],
    "units": [("service", UNIT)],
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_is_unknown_is_inspected_with_the_probe_s_reason(name):
    wrong = {key: row for key, row in rows(**{name: TIMEOUT}).items() if not row.ok}
    assert list(wrong) == UNSEEN[name]
    for row in wrong.values():
        assert (row.observed, row.action) == ("unknown", Action.INSPECT)
        assert row.reason == TIMEOUT["reason"]


@pytest.mark.parametrize("name", UNSEEN)
def test_what_is_not_on_the_host_is_never_taken_for_fine(name):
    wrong = {key: row for key, row in rows(**{name: ABSENT}).items() if not row.ok}
    assert list(wrong) == UNSEEN[name]
    assert {row.action for row in wrong.values()} == {Action.INSPECT}
    assert all(row.reason for row in wrong.values())


def test_a_distribution_that_is_unknown_has_the_probe_s_reason():
    row = rows(os=TIMEOUT)["driver.package", "host"]
    assert (row.action, row.reason) == (Action.INSPECT, TIMEOUT["reason"])


def test_a_distribution_that_the_stack_has_no_driver_for():
    row = rows({"os": {"id": "plan9", "name": "Plan 9"}})["driver.package", "host"]
    assert (row.action, row.reason) == (Action.INSPECT, "no packages for Plan 9")


# --- GPUs --------------------------------------------------------------------------------------


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


# --- drift -------------------------------------------------------------------------------------


def change(**fields):
    base = {"subject": "s", "before": "old", "after": "new", "why": "it is wanted"}
    return Change(resource="r", stage=Stage.SOURCES, **{**base, **fields})


def drift(*changes, awaited=()):
    rounds = (Round(changes=changes),) if changes else ()
    return checks.drift(Plan(host="h", stack="lab", rounds=rounds, awaited=awaited))


@pytest.mark.parametrize(
    ("fields", "action", "reason"),
    [
        ({}, Action.PROVISION, "it is wanted"),
        ({"blocked": "it can't be told"}, Action.INSPECT, "it can't be told"),
    ],
)
def test_a_change_that_planning_would_make_is_a_difference(fields, action, reason):
    (row,) = drift(change(**fields))
    assert (row.id, row.subject, row.action, row.reason) == ("state.r", "s", action, reason)
    assert (row.expected, row.observed, row.ok) == ("new", "old", False)


def test_only_what_can_be_done_now_is_a_difference():
    later = Round(changes=(change(subject="later"),))
    plan = Plan(host="h", stack="lab", rounds=(Round(changes=(change(),)), later))
    assert [row.subject for row in checks.drift(plan)] == ["s"]


def test_nothing_to_do_is_a_row_that_is_right():
    (row,) = drift()
    assert (row.id, row.subject, row.ok) == ("state", "lab", True)


def test_what_is_awaited_is_a_difference_on_a_host_with_nothing_to_do():
    nothing, awaited = drift(awaited=(change(awaited="nobody has built it"),))
    assert nothing.ok
    assert (awaited.ok, awaited.reason) == (False, "nobody has built it")


# --- findings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "observed", "action", "reason"),
    [
        (1, 1, Action.NONE, ""),
        (1, 2, Action.RESET, "it matters"),
        ("1", 1, Action.RESET, "it matters"),
    ],
)
def test_a_finding_is_right_when_both_sides_are_equal(expected, observed, action, reason):
    row = compare(
        "a", "b", expected=expected, observed=observed, action=Action.RESET, reason="it matters"
    )
    assert (row.action, row.reason, row.ok) == (action, reason, action is Action.NONE)


def test_a_finding_as_data():
    row = unknown("gpu.link_width", "GPU 3", expected="x16", reason="no answer", noun="PCIe")
    data = row.to_data()
    assert json.loads(json.dumps(data)) == {
        "id": "gpu.link_width",
        "subject": "GPU 3",
        "expected": "x16",
        "observed": "unknown",
        "action": "inspect",
        "reason": "no answer",
        "ok": False,
        "text": "GPU 3: PCIe unknown instead of x16",
    }
