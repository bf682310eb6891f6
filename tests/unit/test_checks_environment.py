"""What checks say of environments: against the lock, against the seal, and in Numba's words."""

import dataclasses

import pytest
from samples import ABSENT, TIMEOUT, WANT, raw, seen

from provision import checks, planner
from provision.checks.finding import Action

LOCKED = len(WANT.stack.locks["main"].versions("3.11.2"))
RELEASE = "cab0508cf67a-1"
FILES = [{"path": f"bin/{name}", "what": "changed"} for name in "abcde"]
NUMBA = "Numba needs NumPy 2.2 or less. Got NumPy 2.4.; numba requires numpy<2.3,>=1.24"
ACCIDENT = {
    "intact": False,
    "changes": FILES,
    "distributions": {"numpy": "2.4.0"},
    "moved": {"numpy": {"by": "uv", "at": 1.0}},
    "broken": NUMBA,
}


def rows(*fields, **answers):
    """All rows about environments of such a host, planning's own among them."""
    promises = [{"environments": {"main": one}} for one in fields]
    plan = planner.plan("h", WANT, raw(*promises, **answers))
    found = checks.check(WANT, seen(*promises, **answers), plan)
    return {row.id: row for row in found if "environment" in row.id}


def test_an_environment_as_locked_and_as_sealed():
    found = rows()
    assert [(row.subject, row.observed, row.ok) for row in found.values()] == [
        ("main", f"{LOCKED} distributions as locked", True),
        (f"main {RELEASE}", "as sealed", True),
        ("main", "2.2.6", True),
    ]


def test_an_environment_on_uv_s_python_is_held_to_that_one_s_rows(monkeypatch):
    asked = []
    main = WANT.stack.environment["main"].model_copy(update={"interpreter": "managed"})
    stack = WANT.stack.model_copy(update={"environment": {"main": main}})
    lock = stack.locks["main"]
    monkeypatch.setattr(type(lock), "versions", lambda self, python: asked.append(python) or {})
    checks.check(dataclasses.replace(WANT, stack=stack), seen(), planner.plan("h", WANT, raw()))
    assert "3.13.0" in asked


@pytest.mark.parametrize(
    ("changes", "observed"),
    [
        ([], "changed"),
        (FILES[:2], "bin/a changed, bin/b changed"),
        (FILES, "bin/a changed, bin/b changed, bin/c changed and 2 more"),
    ],
)
def test_files_that_were_changed_are_named(changes, observed):
    row = rows({"intact": False, "changes": changes})["environment.files"]
    assert (row.expected, row.observed, row.action) == ("as sealed", observed, Action.PROVISION)
    assert "by hand or by another tool" in row.reason


def test_numba_says_what_another_numpy_breaks_and_who_put_it_there_is_named():
    found = rows(ACCIDENT)
    row = found["environment"]
    assert row.observed == f"{LOCKED - 1} distributions as locked"
    assert (row.action, row.reason) == (Action.PROVISION, NUMBA)
    assert "numpy 2.4.0 instead of 2.2.6 by uv" in found["state.environment"].reason
    assert NUMBA in found["state.environment"].reason
    assert not found["environment.files"].ok


def test_a_wheel_of_our_own_is_no_distribution_beside_the_lock():
    joined = {"wheels": {"extension": "1" * 64}, "distributions": {"extension": "1.0"}}
    assert rows(joined)["environment"].ok
    row = rows({"distributions": {"extension": "1.0"}})["environment"]
    assert row.observed == f"{LOCKED} distributions as locked, and extension"


def test_before_the_first_release_no_files_are_spoken_of():
    nothing = dict.fromkeys(WANT.stack.locks["main"].versions("3.11.2"))
    found = rows({"release": None, "lock": None, "intact": False, "distributions": nothing})
    assert found["environment"].observed == "0 distributions as locked"
    assert "environment.files" not in found


@pytest.mark.parametrize(
    ("answer", "reason"), [(TIMEOUT, TIMEOUT["reason"]), (ABSENT, "no environments")]
)
def test_environments_that_are_not_known_are_inspected(answer, reason):
    row = rows(environments=answer)["environment"]
    assert (row.observed, row.action, row.reason) == ("unknown", Action.INSPECT, reason)
