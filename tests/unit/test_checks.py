"""Checks: for each, what is right, what is wrong, and what could not be found out."""

import json

import pytest
import samples
from checked import EMPTY, rows, said, seen
from samples import ABSENT, DRIVER, TIMEOUT, WANT

from provision import checks
from provision.checks.finding import Action, compare, unknown
from provision.plan import Change, Plan, Round, Stage

UNIT = "nvidia-persistenced.service"
LOCKED = WANT.stack.locks["main"].versions("3.11.2")
DISTRIBUTIONS = f"{len(LOCKED)} distributions as locked"


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
