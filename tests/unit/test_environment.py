"""Releases of environments: why a new one is made, of what, and which of the old ones go."""

import dataclasses

import pytest
from samples import REPOSITORY, WANT, planned, raw, seen

from provision import planner, stack
from provision.inventory import Site
from provision.plan import Discard, Feed, Intact, Place, Python, Run, Seal, Switch, Write
from provision.resources import environment, nouveau, uv
from provision.want import Want
from provision.wheelhouse import Manifest

LOCK = WANT.stack.locks["main"]
LOCKED = LOCK.versions("3.11.2")
HASH = LOCK.sha256[:12]
NUMPY = LOCKED["numpy"]
ROOT = "/opt/firstlight/environments/main"
UV = uv.path(WANT)
INTO = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirements"]


def there(**fields):
    """The promise of what differs in the environment."""
    return {"environments": {"main": fields}}


def at(minute):
    return f"2026-11-30T06:{minute:02}:00.000Z"


def distributions(**versions):
    return there(distributions=versions)


# --- why ---------------------------------------------------------------------------------------

NUMBA = "Numba needs NumPy 2.2 or less. Got NumPy 2.4.; numba requires numpy<2.3,>=1.24"
MOVED = f"numpy 2.4.0 instead of {NUMPY}"
CHANGED = "files in it were changed since it was sealed"
SYSTEM = "the system's, as the stack says: its headers are packages, nothing is fetched"
FILES = [{"path": f"bin/{name}", "what": "changed"} for name in "abcde"]


@pytest.mark.parametrize(
    ("promise", "why"),
    [
        ({"environments": {"main": None}}, "there is none yet"),
        (there(release=None), "there is none yet"),
        (there(lock=None), "its manifest is gone or damaged"),
        (there(lock="0" * 64), "the lock has changed"),
        (there(intact=False), CHANGED),
        (
            there(intact=False, changes=FILES[:1]),
            f"{CHANGED}: bin/a changed",
        ),
        (
            there(intact=False, changes=FILES),
            f"{CHANGED}: bin/a changed, bin/b changed, bin/c changed and 2 more",
        ),
        (
            {"os": {"python": {"version": "3.13.5"}}},
            "it is for Python 3.11.2, the host now has 3.13.5",
        ),
        (
            there(wheels={"flash-attn": "1" * 64}),
            "a wheel of ours was built or taken away: flash-attn",
        ),
        (distributions(numpy="1.0"), f"it has drifted: numpy 1.0 instead of {NUMPY}"),
        (distributions(numpy=None), f"it has drifted: numpy absent instead of {NUMPY}"),
        (distributions(evil="6.6"), "it has drifted: evil 6.6 instead of nothing"),
        (
            distributions(numpy=None, evil="6.6"),
            f"it has drifted: evil 6.6 instead of nothing, numpy absent instead of {NUMPY}",
        ),
        (
            there(
                intact=False,
                changes=FILES,
                distributions={"numpy": "2.4.0", "evil": "6.6"},
                moved={"numpy": {"by": "uv", "at": 1.0}},
                broken=NUMBA,
            ),
            f"it has drifted: evil 6.6 instead of nothing, {MOVED} by uv ({NUMBA})",
        ),
    ],
)
def test_why_a_new_release_is_made(promise, why):
    (change,) = planned(environment, promise)
    assert change.why == f"{why}; its Python is {SYSTEM}"
    assert planned(environment, promise, change.makes) == []


def test_a_patch_of_python_needs_no_new_release():
    assert planned(environment, {"os": {"python": {"version": "3.11.99"}}}) == []


# --- of what -----------------------------------------------------------------------------------


def kinds(change):
    return [type(action) for action in change.actions]


def test_a_release_is_made_whole_and_sealed_before_it_is_switched_to():
    (change,) = planned(environment, {"environments": {"main": None}})
    assert kinds(change) == [Write, Run, Run, Seal, Switch]
    locked, venv, install, seal, switch = change.actions
    path = f"{ROOT}/releases/{HASH}-1"
    assert (locked.path, locked.content) == (f"{ROOT}/locks/{HASH}.txt", LOCK.text)
    assert venv.argv == (UV, "venv", "--python", "/usr/bin/python3", path)
    python = f"{path}/bin/python"
    assert list(install.argv) == [UV, "pip", "install", "--python", python, *INTO, locked.path]
    assert install.env["UV_LINK_MODE"] == "copy"
    assert (seal.release, seal.lock, seal.python) == (path, LOCK.sha256, "3.11.2")
    assert (seal.versions, seal.wheels) == (LOCKED, {})
    assert (switch.link, switch.target) == (f"{ROOT}/current", f"releases/{HASH}-1")


SHA = "a" * 64
EXTENSION = Manifest(
    file="extension-1.0+numpy2.2-cp311-cp311-linux_x86_64.whl",
    sha256=SHA,
    size=1,
    requires=(f"numpy=={NUMPY}",),
    archs=("12.0",),
    glibc="2.34",
)


def wanting(*wheels, built=(EXTENSION,)):
    """The want with an environment that such wheels join, once they are built."""
    main = WANT.stack.environment["main"].model_copy(update={"wheels": wheels})
    wanted = WANT.stack.model_copy(update={"environment": {"main": main}})
    return dataclasses.replace(WANT, stack=wanted, wheelhouse=built)


def test_a_wheel_of_our_own_joins_by_hash_and_without_any_index():
    (change,) = planned(environment, {"environments": {"main": None}}, want=wanting("extension==1"))
    assert kinds(change) == [Write, Run, Run, Place, Write, Run, Seal, Switch]
    _, _, _, place, requirements, install, seal, switch = change.actions
    release = switch.target.removeprefix("releases/")
    assert (place.sha256, place.path) == (SHA, f"{ROOT}/wheels/{SHA[:12]}/{EXTENSION.file}")
    assert requirements.path == f"{ROOT}/releases/{release}.txt"
    assert requirements.content == f"extension @ file://{place.path} --hash=sha256:{SHA}\n"
    assert list(install.argv[3:]) == [
        *("--python", f"{seal.release}/bin/python", *INTO, requirements.path, "--no-index")
    ]
    assert seal.versions == LOCKED | {"extension": "1.0+numpy2.2"}
    assert seal.wheels == {"extension": SHA}
    assert change.after == f"{release} (4 distributions)"


def test_a_wheel_that_was_built_since_is_a_new_release_and_nothing_is_left_to_do():
    want = wanting("extension==1")
    (change,) = planned(environment, want=want)
    assert change.why.startswith("a wheel of ours was built or taken away: extension;")
    assert change.before == f"{HASH}-1"
    assert not change.after.startswith(HASH)
    assert planned(environment, change.makes, want=want) == []


def test_a_release_is_named_by_all_that_it_is_made_of():
    other = EXTENSION.model_copy(update={"sha256": "b" * 64})
    names = {environment.identity(LOCK, wheels) for wheels in ([], [EXTENSION], [EXTENSION, other])}
    assert len(names) == 3
    assert environment.identity(LOCK, []) == LOCK.sha256
    both = environment.identity(LOCK, [EXTENSION, other])
    assert environment.identity(LOCK, [other, EXTENSION]) == both


def test_a_wheel_that_nobody_built_is_awaited_and_the_environment_is_made_without_it():
    want = Want(stack=stack.load("torch29-cu128"), uv=WANT.uv, repository=REPOSITORY)
    awaited, change = environment.plan(want, seen({"environments": {"main": None}}))
    assert awaited.subject == "main/flash-attn"
    assert awaited.awaited == (
        "nobody has built this wheel yet; the environment is made without it"
    )
    assert awaited.actions == ()
    assert change.awaited == ""
    assert "flash-attn" not in change.actions[0].content


def test_a_wheel_for_another_torch_is_awaited_and_both_are_named():
    file = "flash_attn-2.8.3+cu128torch2.10.0-cp311-cp311-linux_x86_64.whl"
    flash = EXTENSION.model_copy(update={"file": file, "requires": ("torch==2.10.0",)})
    want = Want(
        stack=stack.load("torch29-cu128"), uv=WANT.uv, repository=REPOSITORY, wheelhouse=(flash,)
    )
    awaited, change = environment.plan(want, seen({"environments": {"main": None}}))
    assert awaited.awaited == (
        f"the wheelhouse has {file}, but it was built for torch==2.10.0, and the lock has "
        "torch 2.9.1; the environment is made without it"
    )
    assert Place not in kinds(change)


def test_what_is_awaited_is_known_from_the_first_round_on():
    want = Want(stack=stack.load("torch29-cu128"), uv=WANT.uv, repository=REPOSITORY)
    plan = planner.plan("h", want, raw({"files": {nouveau.PATH: None}}))
    assert not plan.empty
    assert [change.subject for change in plan.awaited] == ["main/flash-attn"]


def test_a_host_that_reaches_no_index_is_fed():
    want = dataclasses.replace(wanting("extension==1"), site=Site(feed=True))
    (change,) = planned(environment, {"environments": {"main": None}}, want=want)
    assert kinds(change) == [Write, Run, Feed, Run, Place, Write, Run, Seal, Switch]
    locked, _, feed, install = change.actions[:4]
    assert feed == Feed(lock=LOCK.sha256, python="3.11.2", folder=f"{ROOT}/feed/{HASH}")
    assert list(install.argv[5:]) == [
        *INTO, locked.path, "--no-index", "--find-links", feed.folder
    ]  # fmt: skip
    installs = [a for a in change.actions if isinstance(a, Run) and "install" in a.argv]
    assert all("--no-index" in action.argv for action in installs)


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


# --- a Python that uv fetches ------------------------------------------------------------------


def managed():
    """The want with an environment on uv's own Python."""
    main = WANT.stack.environment["main"].model_copy(update={"interpreter": "managed"})
    wanted = WANT.stack.model_copy(update={"environment": {"main": main}})
    return dataclasses.replace(WANT, stack=wanted)


def test_uv_fetches_the_newest_python_that_the_environment_is_locked_for():
    (change,) = planned(environment, {"environments": {"main": None}}, want=managed())
    assert kinds(change) == [Write, Python, Run, Run, Seal, Switch]
    _, fetch, venv, install, seal, _ = change.actions
    pythons = "/opt/firstlight/python"
    asked = ("python", "install", "3.13", "--install-dir", pythons, "--no-bin")
    assert fetch.argv == (UV, *asked)
    assert fetch.env["UV_PYTHON_DOWNLOADS"] == "manual"
    assert venv.argv == (UV, "venv", "--managed-python", "--python", "3.13", seal.release)
    assert venv.env["UV_PYTHON_INSTALL_DIR"] == pythons
    assert {one.env["UV_PYTHON_DOWNLOADS"] for one in (venv, install)} == {"never"}
    assert (seal.python, seal.versions) == ("uv's 3.13", LOCK.versions("3.13.0"))
    reason = "uv's, as the stack says: with headers of its own, from uv's download site"
    assert change.why == f"there is none yet; its Python is {reason}"
    assert planned(environment, change.makes, want=managed()) == []


def test_the_same_python_of_another_s_is_another_release():
    (change,) = planned(environment, want=managed())
    assert change.why.startswith("it is for Python 3.11.2, the host now has uv's 3.13;")
    (back,) = planned(environment, change.makes)
    assert back.why.startswith("it is for Python uv's 3.13, the host now has 3.11.2;")


def test_a_host_s_newer_python_does_not_matter_to_an_environment_on_uv_s():
    (change,) = planned(environment, want=managed())
    newer = {"os": {"python": {"version": "3.14.1"}}}
    assert planned(environment, newer, change.makes, want=managed()) == []


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
