"""What single resources plan, where a whole host's way does not reach."""

import pytest
from samples import REPOSITORY, WANT, installed, planned, raw, refused, seen

from provision import planner, resources, stack
from provision.resources import (
    apt_pins,
    cloud_init,
    dpkg,
    environment,
    nouveau,
    persistence,
    uv,
)
from provision.want import Want

LOCK = WANT.stack.locks["main"]


@pytest.mark.parametrize("resource", resources.ORDER, ids=lambda resource: resource.NAME)
def test_on_a_finished_host_no_resource_has_anything_to_do(resource):
    assert [change for change in planned(resource) if not change.awaited] == []


def test_resources_stand_in_the_order_of_their_stages():
    stages = [resource.STAGE for resource in resources.ORDER]
    assert stages == sorted(stages)


def test_the_query_names_each_thing_once():
    asked = resources.query(WANT)
    lists = [value for value in asked.values() if isinstance(value, list)]
    assert [value for value in lists if len(value) != len(set(value))] == []
    assert apt_pins.PATH in asked["files"]
    assert uv.path(WANT) in asked["uv"]
    assert resources.query(WANT) == asked


# --- cloud-init ---------------------------------------------------------------------------------


CLOUD = {"status": "ok", "value": {"running": True}}


def test_cloud_init_is_waited_for_before_anything_else_is_done():
    (change,) = planned(cloud_init, cloud_init=CLOUD)
    (wait,) = change.actions
    assert (wait.argv, wait.accepts) == (("cloud-init", "status", "--wait"), (0, 2))
    assert planned(cloud_init, change.makes) == []
    files = {"files": {nouveau.PATH: None}}
    changes = planner.plan("h", WANT, raw(files, cloud_init=CLOUD)).now.changes
    assert [one.resource for one in changes] == ["cloud_init", "nouveau"]


def test_without_cloud_init_nothing_is_waited_for():
    assert planned(cloud_init, cloud_init={"status": "absent", "reason": "no cloud-init"}) == []


# --- dpkg --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("promise", "before"),
    [
        ({"dpkg": {"interrupted": True}}, "interrupted: a transaction is unfinished"),
        (installed("gcc", "1", "half-configured"), "interrupted: gcc"),
        (installed("gcc", "1", "triggers-awaited"), "interrupted: gcc"),
        (installed("gcc", "1", "triggers-pending"), "interrupted: gcc"),
    ],
)
def test_an_interrupted_dpkg_is_finished_first(promise, before):
    (change,) = planned(dpkg, promise)
    assert change.before == before
    assert change.actions[0].argv[:3] == ("dpkg", "--configure", "-a")
    assert change.actions[0].accepts == (0,)
    assert planned(dpkg, promise, change.makes) == []


def test_a_package_that_was_removed_is_no_interrupted_one():
    assert planned(dpkg, installed("gcc", "1", "config-files")) == []


# --- runtime -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "before"),
    [
        (None, "no such unit"),
        ({"active": "inactive", "enabled": "enabled"}, "inactive, enabled"),
        ({"active": "active", "enabled": "disabled"}, "active, disabled"),
    ],
)
def test_the_persistence_daemon_runs_and_starts_by_itself(unit, before):
    (change,) = planned(persistence, {"units": {persistence.UNIT: unit}})
    assert (change.before, change.after) == (before, "active, enabled")


def test_a_daemon_that_was_masked_is_unmasked_first():
    masked = {"units": {persistence.UNIT: {"active": "inactive", "enabled": "masked"}}}
    (change,) = planned(persistence, masked)
    assert [action.argv[1] for action in change.actions] == ["unmask", "enable"]


def test_a_machine_that_no_uv_is_built_for():
    assert "no uv wheel is known for riscv64" in str(refused(uv, {"os": {"arch": "riscv64"}}))


def test_the_uv_wheel_is_the_one_of_the_host_s_machine():
    (change,) = planned(uv, {"os": {"arch": "aarch64"}, "uv": {uv.path(WANT): None}})
    assert change.actions[0].wheel == WANT.uv.wheels["aarch64"]


def releases(*names):
    return {"environments": {"main": {"releases": list(names)}}}


def distributions(**versions):
    return {"environments": {"main": {"distributions": versions}}}


HASH = LOCK.sha256[:12]
NUMPY = LOCK.versions("3.11.2")["numpy"]


@pytest.mark.parametrize(
    ("promise", "why"),
    [
        ({"environments": {"main": None}}, "there is none yet"),
        ({"environments": {"main": {"release": None}}}, "there is none yet"),
        ({"environments": {"main": {"lock": None}}}, "its manifest is gone or damaged"),
        ({"environments": {"main": {"lock": "0" * 64}}}, "the lock has changed"),
        (
            {"environments": {"main": {"intact": False}}},
            "files in it were changed since it was sealed",
        ),
        (
            {"os": {"python": {"version": "3.13.5"}}},
            "it is for Python 3.11.2, the host now has 3.13.5",
        ),
        (distributions(numpy="1.0"), f"it has drifted: numpy 1.0 instead of {NUMPY}"),
        (distributions(numpy=None), f"it has drifted: numpy absent instead of {NUMPY}"),
        (distributions(evil="6.6"), "it has drifted: evil 6.6 instead of nothing"),
        (
            distributions(numpy=None, evil="6.6"),
            f"it has drifted: evil 6.6 instead of nothing, numpy absent instead of {NUMPY}",
        ),
    ],
)
def test_why_a_new_release_is_made(promise, why):
    (change,) = planned(environment, promise)
    assert change.why == why
    assert planned(environment, promise, change.makes) == []


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ((), f"{HASH}-1"),
        ((f"{HASH}-1",), f"{HASH}-2"),
        ((f"{HASH}-1", f"{HASH}-10", f"{HASH}-2"), f"{HASH}-11"),
        (("0123456789ab-7",), f"{HASH}-1"),
        ((f"{HASH}-3", "0123456789ab-7"), f"{HASH}-4"),
        ((f"{HASH}-1", f"{HASH}-1.bak"), f"{HASH}-2"),
    ],
)
def test_a_release_never_takes_the_number_of_one_that_was_begun(there, expected):
    (change,) = planned(environment, releases(*there), distributions(numpy=None))
    assert change.after.startswith(f"{expected} (")
    assert change.actions[-1].target == f"releases/{expected}"
    assert change.makes["environments"]["main"]["releases"] == sorted([*there, expected])


def test_a_patch_of_python_needs_no_new_release():
    assert planned(environment, {"os": {"python": {"version": "3.11.99"}}}) == []


def test_a_release_is_made_whole_and_sealed_before_it_is_switched_to():
    (change,) = planned(environment, {"environments": {"main": None}})
    assert [action.do for action in change.actions] == ["write", "run", "run", "seal", "switch"]
    install = change.actions[2].argv
    assert {"--require-hashes", "--no-deps", ":all:"} <= set(install)
    assert change.actions[2].env["UV_LINK_MODE"] == "copy"
    assert change.actions[0].content == LOCK.text


def test_a_wheel_of_our_own_is_awaited_and_the_environment_is_made_without_it():
    want = Want(stack=stack.load("torch29-cu128"), uv=WANT.uv, repository=REPOSITORY)
    awaited, change = environment.plan(want, seen({"environments": {"main": None}}))
    assert awaited.subject == "main/flash-attn"
    assert (bool(awaited.awaited), awaited.actions) == (True, ())
    assert change.awaited == ""
    assert "flash-attn" not in change.actions[0].content


def test_what_is_awaited_is_known_from_the_first_round_on():
    want = Want(stack=stack.load("torch29-cu128"), uv=WANT.uv, repository=REPOSITORY)
    plan = planner.plan("h", want, raw({"files": {nouveau.PATH: None}}))
    assert not plan.empty
    assert [change.subject for change in plan.awaited] == ["main/flash-attn"]
