"""Releases of environments: why a new one is made, of what, and on which Python."""

import dataclasses

import pytest
from environments import EXTENSION, HASH, LOCK, LOCKED, NUMPY, ROOT, SHA, kinds, there, wanting
from samples import REPOSITORY, WANT, planned, raw, seen

from provision import planner, stack
from provision.inventory import Site
from provision.plan import Feed, Place, Python, Run, Seal, Switch, Write
from provision.resources import environment, nouveau, uv
from provision.want import Want

UV = uv.path(WANT)
INTO = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirements"]


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
