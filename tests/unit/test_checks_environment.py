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
        (f"main {RELEASE}", "unchanged since they were proved for 12.0, at the sealing", True),
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


# --- extensions, by their seal --------------------------------------------------------------------

BLACKWELL, HOPPER, UNHEARD = (
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "NVIDIA H200",
    "NVIDIA Unheard 1",
)


@pytest.mark.parametrize(
    ("models", "proved", "well", "needed"),
    [
        ([BLACKWELL], {"12.0": 8}, True, "12.0"),
        ([BLACKWELL], {"12.0": 8, "9.0": 1}, True, "12.0"),  # one was taken out since
        ([BLACKWELL, HOPPER], {"12.0": 8, "9.0": 1}, True, "12.0 and 9.0"),
        ([BLACKWELL, HOPPER], {"12.0": 8}, False, "12.0 and 9.0"),  # one came since
        ([HOPPER], {}, False, "9.0"),
        ([UNHEARD], {"12.0": 8}, False, UNHEARD),
    ],
)
def test_extensions_are_proved_for_the_gpus_that_were_there(models, proved, well, needed):
    facts = seen({"environments": {"main": {}}})
    main = dataclasses.replace(facts.environments["main"], proved=proved)
    cards = [
        dataclasses.replace(facts.gpus[0], index=index, name=model)
        for index, model in enumerate(models)
    ]
    facts = dataclasses.replace(facts, environments={"main": main}, gpus=cards)
    (row,) = [
        row
        for row in checks.check(WANT, facts, planner.plan("h", WANT, raw()))
        if row.id == "environment.extensions"
    ]
    assert row.ok is well
    assert row.expected == f"unchanged since they were proved for {needed}"
    assert row.action.value == ("none" if well else "inspect")


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        (None, "there is none yet"),
        ({"release": None, "distributions": {"numpy": None}}, "there is none yet"),
        ({"distributions": {"numpy": "1.0"}}, "the environment has drifted from its lock"),
    ],
)
def test_an_environment_that_is_not_there_has_not_drifted(there, reason):
    assert rows(there)["environment"].reason == reason
