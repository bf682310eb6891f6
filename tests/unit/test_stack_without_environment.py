"""Hosts of driver 580 and CUDA 13.0 whose torch is in an interpreter of their own."""

import dataclasses

import pytest

from provision import checks, facts, planner, stack
from tests.scenarios import scenario

NAME = "torch211-cu130"


def host(name):
    """A scenario's host, with this stack instead of its own."""
    one = scenario.load(name)
    return dataclasses.replace(one.want, stack=stack.load(NAME)), one.facts


def test_a_host_that_has_them_is_told_of_them_and_of_no_other_driver_or_toolkit():
    """The facts are those of a real Ubuntu 24.04 with 2 H200, which has no systemd."""
    want, raw = host("ubuntu2404-h200")
    rows = checks.check(want, facts.parse(raw), planner.plan("h", want, raw))
    right = {f"{row.id} {row.subject}": row.observed for row in rows if row.ok}
    version = want.stack.system.driver.version
    assert right["driver.module host"] == right["driver.nvml nvidia-smi"] == version
    assert right["toolkit CUDA 13.0"] == "nvcc 13.0.88"
    assert right["cuda host"] == "driver up to 13.0, toolkits 13.0, torch in no environment"
    assert [row for row in rows if "590." in row.prose or "13.1" in row.prose] == []
    assert [row for row in rows if row.id.startswith("environment")] == []


def test_the_driver_s_packages_have_the_branch_in_their_names_on_ubuntu():
    want, raw = host("ubuntu2404-h200")
    rows = checks.check(want, facts.parse(raw), planner.plan("h", want, raw))
    (package,) = [row for row in rows if row.id == "driver.package"]
    assert package.subject == "nvidia-open-580"
    assert package.expected == f"{want.stack.system.driver.version}-1ubuntu1"


@pytest.mark.parametrize("name", ["debian12-bare", "debian13-bare"])
def test_a_bare_host_gets_driver_and_toolkit_and_neither_uv_nor_an_environment(name):
    want, raw = host(name)
    plan = planner.plan("h", want, raw)
    changes = [change for one in plan.rounds for change in one.changes]
    assert [change.id for change in changes if change.blocked] == []
    made = {change.resource: change.subject for change in changes}
    assert made["driver"] == want.stack.system.driver.version
    assert made["toolkits"] == "13.0"
    assert {"uv", "environment"} & made.keys() == set()
