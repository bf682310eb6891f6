"""Every situation: the plan is as expected, its promises end, and what comes is no surprise."""

from __future__ import annotations

import pytest

from provision import facts, promises, resources
from provision.planner import plan
from provision.resources.known import NotKnown
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
    makes = [change.makes for round_ in found.rounds for change in round_.changes]
    left = plan(name, one.want, promises.merge(one.facts, *makes))
    if any(round_.blocked for round_ in found.rounds):
        assert left.now.blocked == found.rounds[-1].blocked
    else:
        assert left.empty


@pytest.mark.parametrize("name", NAMES)
def test_afterwards_nothing_is_left_to_do(name):
    one = scenario.load(name)
    assert scenario.outline(plan(name, one.want, one.after))["now"] == []


def _seen() -> dict[str, set[str]]:
    """Resource → the kinds of scenario in which it stands.

    Unknown facts are tried on each resource by itself: in a plan an earlier one may stop first.
    """
    kinds: dict[str, set[str]] = {resource.NAME: set() for resource in resources.ORDER}
    for name in NAMES:
        one = scenario.load(name)
        seen = facts.parse(one.facts)
        for resource in resources.ORDER:
            try:
                changes = resource.plan(one.want, seen)
                blocked = [change.blocked for change in changes if change.blocked]
            except NotKnown as reason:
                changes, blocked = [], [str(reason)]
            if any(text.split(":")[0] in facts.Facts.__annotations__ for text in blocked):
                kinds[resource.NAME].add("unknown")
            elif not blocked:
                kinds[resource.NAME].add("change" if changes else "no-op")
            elif resource.NAME == "preflight":
                kinds[resource.NAME].add("change")  # all that it ever says
    return kinds


def test_every_resource_has_a_change_a_no_op_and_an_unknown_scenario():
    wanted = {"change", "no-op", "unknown"}
    lacking = {name: wanted - kinds for name, kinds in _seen().items() if wanted - kinds}
    assert lacking == {}
