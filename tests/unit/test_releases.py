"""Which release of an environment comes, which stay, and what goes with those that don't."""

import dataclasses

import pytest
from environments import EXTENSION, HASH, LOCK, ROOT, SHA, at, kinds, there, wanting
from samples import planned, raw

from provision.inventory import Site
from provision.plan import Discard, Intact, Switch
from provision.resources import environment

# --- one that is there already -----------------------------------------------------------------


def sealed(**fields):
    return {"lock": LOCK.sha256, "wheels": {}, "python": "3.11.2", "intact": True} | fields


def gone_back(other=f"{HASH}-1", **fields):
    """The promise that a release of another lock is current, and of one that lies beside it."""
    return there(
        release="old-1",
        lock="0" * 64,
        releases={f"{HASH}-1": at(1), "old-1": at(0), other: at(2)},
        older={other: sealed(**fields)},
    )


def test_a_release_that_is_as_wanted_and_intact_is_switched_to_and_nothing_is_made():
    (change,) = planned(environment, gone_back())
    assert (change.before, change.why) == ("old-1", "the lock has changed")
    assert change.after == f"{HASH}-1, which is there already"
    assert change.actions == (
        Intact(release=f"{ROOT}/releases/{HASH}-1"),
        Switch(link=f"{ROOT}/current", target=f"releases/{HASH}-1"),
    )
    assert planned(environment, gone_back(), change.makes) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"lock": "1" * 64},
        {"lock": None},
        {"wheels": {"extension": SHA}},
        {"python": "3.12.1"},
        {"python": None},
        {"intact": False},
        {"intact": None},
    ],
    ids=[
        *("another lock", "no manifest", "a wheel too many", "another Python", "no Python"),
        *("changed since", "not looked at"),
    ],
)
def test_one_that_is_not_is_not_switched_to(fields):
    (change,) = planned(environment, gone_back(**fields))
    assert change.after == f"{HASH}-2 (3 distributions)"
    assert Intact not in kinds(change)


def test_of_several_the_one_that_was_sealed_last_is_switched_to():
    more = there(older={f"{HASH}-3": sealed(python="3.11.9")}, releases={f"{HASH}-3": at(3)})
    (change,) = planned(environment, gone_back(), more)
    assert change.after.startswith(f"{HASH}-3,")
    assert change.makes["environments"]["main"]["python"] == "3.11.9"


def test_a_release_that_was_never_finished_is_not_switched_to_whatever_is_said_of_it():
    (change,) = planned(environment, gone_back(), there(releases={f"{HASH}-1": None}))
    assert change.after.startswith(f"{HASH}-2 ")


def test_the_release_that_is_switched_to_does_not_go_as_an_old_one():
    more = {f"older-{number}": at(number + 10) for number in range(3)}
    (change,) = planned(environment, gone_back(), there(releases=more))
    *_, switch, discard = change.actions
    assert switch.target == f"releases/{HASH}-1"
    gone = [f"{ROOT}/releases/older-{number}" for number in range(2)]
    assert list(discard.releases) == gone


def test_a_host_is_told_what_the_wanted_release_may_be_called():
    asked = environment.query(wanting("extension==1"))["environments"]["main"]
    other = environment.identity(LOCK, [EXTENSION])[:12]  # it fits one of the Pythons alone
    assert asked == {"root": ROOT, "wanted": sorted([HASH, other])}


# --- which of the old ones go ------------------------------------------------------------------


def with_releases(current, releases, **fields):
    """The one change of an environment that has these releases, and needs another one."""
    main = raw()["facts"]["environments"]["value"]["main"]
    main = {**main, "lock": None, "release": current, "releases": releases, **fields}
    found = {"status": "ok", "value": {"main": main}}
    (change,) = planned(environment, environments=found)
    return change


@pytest.mark.parametrize(
    ("begun", "expected"),
    [
        ((), f"{HASH}-1"),
        ((f"{HASH}-1",), f"{HASH}-2"),
        ((f"{HASH}-1", f"{HASH}-10", f"{HASH}-2"), f"{HASH}-11"),
        (("0123456789ab-7",), f"{HASH}-1"),
        ((f"{HASH}-3", "0123456789ab-7"), f"{HASH}-4"),
        ((f"{HASH}-1", f"{HASH}-1.bak"), f"{HASH}-2"),
    ],
)
@pytest.mark.parametrize("sealed", [at(1), None])
def test_a_release_never_takes_the_number_of_one_that_was_begun(begun, expected, sealed):
    change = with_releases(None, dict.fromkeys(begun, sealed))
    assert change.after.startswith(f"{expected} (")
    (switch,) = (action for action in change.actions if isinstance(action, Switch))
    assert switch.target == f"releases/{expected}"
    assert change.makes["environments"]["main"]["release"] == expected


SEALED = {f"old-{number}": at(number) for number in range(1, 5)}


@pytest.mark.parametrize(
    ("current", "releases", "first", "last"),
    [
        ("old-4", SEALED, [], ["old-1", "old-2"]),
        ("old-1", SEALED, [], ["old-2", "old-3"]),
        (None, SEALED, [], ["old-1", "old-2"]),
        ("old-2", {"old-1": at(1), "old-2": at(2)}, [], []),
        ("old-1", {"old-1": at(1), "b": None, "a": None}, ["a", "b"], []),
        ("old-1", {"old-1": None, "old-2": at(2)}, [], []),
        (None, {"a": None}, ["a"], []),
    ],
    ids=[
        *("the current one is the latest", "it was gone back to", "none is current", "two"),
        *("begun and never sealed", "the current one has lost its seal", "nothing was ever done"),
    ],
)
def test_litter_goes_first_old_releases_last_and_the_current_one_never(
    current, releases, first, last
):
    """Three sealed ones stay: the new, the one before, and another to go back to."""
    change = with_releases(current, releases)
    discards = {
        place: [path.removeprefix(f"{ROOT}/releases/") for path in action.releases]
        for place, action in enumerate(change.actions)
        if isinstance(action, Discard)
    }
    end = len(change.actions) - 1
    assert discards == ({0: first} if first else {}) | ({end: last} if last else {})
    assert isinstance(change.actions[end - bool(last)], Switch)
    promised = change.makes["environments"]["main"]["releases"]
    assert {name for name, when in promised.items() if when is None} == {*first, *last}


# --- what they are made from -------------------------------------------------------------------


def of(lock, *wheels):
    """What a release of a lock and such wheels is made from."""
    return {
        f"locks/{lock[:12]}.txt",
        f"feed/{lock[:12]}",
        *(f"wheels/{one[:12]}" for one in wheels),
    }


OLD, OLDER, GONE = "1" * 64, "2" * 64, "3" * 64
LYING = of(OLD, "a" * 64) | of(OLDER, "b" * 64) | of(GONE, "c" * 64) | {f"locks/{HASH}.txt"}


def lying(*, kept):
    """The promise that all that lies there, of which releases of these locks stay."""
    names = {f"old-{number}": lock for number, lock in enumerate(kept, 1)}
    older = {name: sealed(lock=lock, wheels={"x": "b" * 64}) for name, lock in names.items()}
    current = {"release": f"{HASH}-1", "lock": OLD, "wheels": {"x": "a" * 64}}
    past = {f"{HASH}-1": at(9), **{name: at(1) for name in names}}
    return there(**current, releases=past, older=older, stored=sorted(LYING))


@pytest.mark.parametrize(
    ("kept", "gone"),
    [
        ([OLDER], of(GONE, "c" * 64)),
        ([], of(GONE, "c" * 64) | of(OLDER, "b" * 64)),
    ],
    ids=["two stay", "one stays"],
)
def test_locks_wheels_and_feeds_go_that_no_release_needs_that_stays(kept, gone):
    (change,) = planned(environment, lying(kept=kept))
    *_, discard = change.actions
    assert discard == Discard(releases=(), beside=tuple(f"{ROOT}/{one}" for one in sorted(gone)))
    assert change.makes["environments"]["main"]["stored"] == sorted(LYING - gone)
    assert planned(environment, lying(kept=kept), change.makes) == []


def test_what_a_release_that_goes_was_made_from_goes_with_it():
    later = there(releases={"old-2": at(2)})
    (change,) = planned(environment, lying(kept=[OLDER]), later)
    *_, discard = change.actions
    gone = of(OLDER, "b" * 64) | of(GONE, "c" * 64)
    assert discard.releases == (f"{ROOT}/releases/old-1",)
    assert discard.beside == tuple(f"{ROOT}/{one}" for one in sorted(gone))


@pytest.mark.parametrize("feed", [True, False])
def test_what_comes_with_a_new_release_is_promised(feed):
    want = dataclasses.replace(wanting("extension==1"), site=Site(feed=feed))
    (change,) = planned(environment, {"environments": {"main": None}}, want=want)
    made = of(LOCK.sha256, SHA) - ({f"feed/{HASH}"} if not feed else set())
    assert change.makes["environments"]["main"]["stored"] == sorted(made)


def test_with_one_that_is_there_already_nothing_comes():
    (change,) = planned(environment, gone_back(), there(stored=[]))
    assert change.makes["environments"]["main"]["stored"] == []
