"""What single resources plan, where a whole host's way does not reach."""

import pytest
from samples import WANT, installed, planned, raw, refused

from provision import planner, resources
from provision.resources import (
    apt_pins,
    cloud_init,
    dpkg,
    nouveau,
    persistence,
    uv,
)

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
