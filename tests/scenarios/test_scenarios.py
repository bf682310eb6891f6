"""Every situation: the plan is as expected, its promises end, and what comes is no surprise."""

from __future__ import annotations

import pytest

from provision import facts, resources
from provision.planner import plan
from tests.scenarios import scenario

NAMES = scenario.names()


@pytest.mark.parametrize("name", NAMES)
def test_scenario_is_complete(name):
    there = {path.name for path in (scenario.FOLDER / name).iterdir()}
    assert there == set(scenario.FILES)


@pytest.mark.parametrize("name", NAMES)
def test_plan_is_as_expected(name):
    one = scenario.load(name)
    assert scenario.outline(plan(name, one.want, one.facts)) == one.expected


@pytest.mark.parametrize("name", NAMES)
def test_promises_lead_to_an_empty_plan(name):
    """Unless something is blocked: then the plan ends there, and says why."""
    one = scenario.load(name)
    found = plan(name, one.want, one.facts)
    promises = [change.makes for round_ in found.rounds for change in round_.changes]
    left = plan(name, one.want, facts.merge(one.facts, *promises))
    if any(round_.blocked for round_ in found.rounds):
        assert left.now.blocked == found.rounds[-1].blocked
    else:
        assert left.empty


@pytest.mark.parametrize("name", NAMES)
def test_afterwards_nothing_is_left_to_do(name):
    one = scenario.load(name)
    assert scenario.outline(plan(name, one.want, one.after))["now"] == []


def _seen() -> dict[str, set[str]]:
    """Resource → the kinds of scenario in which it stands."""
    kinds: dict[str, set[str]] = {resource.NAME: set() for resource in resources.ORDER}
    for name in NAMES:
        one = scenario.load(name)
        found = plan(name, one.want, one.facts)
        for change in found.now.changes:
            unknown = change.blocked and change.blocked.split(":")[0] in facts.Facts.__annotations__
            kinds[change.resource].add("unknown" if unknown else "change")
        if found.empty:
            for seen in kinds.values():
                seen.add("no-op")
    return kinds


def test_every_resource_has_a_change_a_no_op_and_an_unknown_scenario():
    wanted = {"change", "no-op", "unknown"}
    lacking = {name: wanted - kinds for name, kinds in _seen().items() if wanted - kinds}
    assert lacking == {}
