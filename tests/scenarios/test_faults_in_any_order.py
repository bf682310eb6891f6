"""A host that drifts, and whose rounds are cut off anywhere, still ends in the wanted state.

The host is simulated on facts: what a change promises becomes true when it is carried out.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision import planner
from provision.facts import Os, WrongFacts
from provision.facts import parse as parse_facts
from provision.plan import Write
from provision.promises import UNSEEN, merge
from provision.remote.paths import HELD
from provision.resources import apt_index, apt_source
from tests.scenarios import drift, scenario
from tests.steady import steady

REBOOTS = 2
"""Rounds with a reboot, at most: one for what is loaded, one for what was built meanwhile."""


class Machine:
    """A host that does what changes promise, and what else is true of a host then."""

    def __init__(self, want, raw):
        self.want, self.raw = want, raw

    def plan(self):
        plan = planner.plan("h", self.want, self.raw)
        assert [(change.id, change.blocked) for change in plan.now.blocked] == []
        return plan

    def do(self, change):
        """Carry it out; False where it fails: it marks a package that has gone meanwhile."""
        after = merge(self.raw, seen(change.makes))
        try:
            parse_facts(after)
        except WrongFacts:
            return False
        self.raw = after
        if change.resource == apt_index.NAME:
            self.raw = merge(self.raw, {"apt": {"policy": self.index()}})
        if change.reboots:
            self.raw = drift.rebooted(self.want, self.raw)
        return True

    def tear(self, change):
        """The change is cut off in its transaction: what is unpacked has lost its hold, too."""
        noted = set(self.raw["facts"]["dpkg"]["value"]["noted"])
        for action in change.actions:
            if not isinstance(action, Write):
                break
            if Path(action.path).parent == HELD:
                noted.add(Path(action.path).name)
                self.raw = merge(self.raw, {"dpkg": {"noted": sorted(noted)}})
                continue
            digest = hashlib.sha256(action.content.encode()).hexdigest()
            there = {action.path: {"sha256": digest, "mode": action.mode}}
            self.raw = merge(self.raw, {"files": there})
        packages = change.makes.get("dpkg", {}).get("packages", {})
        torn = {
            name: seen(package) | {"status": "unpacked", "hold": False}
            for name, package in packages.items()
            if package and "version" in package
        }
        if torn:
            self.raw = merge(self.raw, {"dpkg": {"packages": torn, "interrupted": True}})

    def index(self):
        """What the sources offer: every version that is wanted, and any of the rest."""
        os = parse_facts(self.raw).os
        assert isinstance(os, Os)
        names = self.want.driver_for(os)
        version = f"{self.want.stack.system.driver.version}{names.revision}"
        offered = dict.fromkeys((*names.packages, *names.pinned), version)
        offered |= {t.package: t.version for t in self.want.stack.toolkit.values()}
        offered |= dict.fromkeys(self.want.stack.system.compilers.packages, "1")
        url = apt_source.repository(self.want, os).url
        return {n: {"candidate": v, "versions": {v: url}} for n, v in offered.items()}


def seen(promise):
    """A promise as the host shows it: it knows what the promise could not."""
    if isinstance(promise, dict):
        return {key: seen(part) for key, part in promise.items()}
    return "1.0" if promise == UNSEEN else promise


def starts():
    """Scenarios of which nothing is blocked."""
    for name in scenario.names():
        one = scenario.load(name)
        plan = planner.plan("h", one.want, one.facts)
        if not any(round_.blocked for round_ in plan.rounds):
            yield name


STARTS = tuple(starts())
steps = st.tuples(
    st.integers(0, 6),
    st.booleans(),
    st.lists(st.sampled_from(drift.ALL), max_size=3),
    st.booleans(),
)
"""After how many changes of its round something happens, whether the next one is cut off, what
drifts, and whether the round goes on as it was planned before."""


def converge(machine):
    """Round by round until nothing is left; how many rounds it took, and how many reboots."""
    rounds = reboots = 0
    while not (plan := machine.plan()).empty:
        assert rounds < planner.ROUND_LIMIT, [change.id for change in plan.now.changes]
        rounds += 1
        reboots += plan.now.reboots
        assert all(machine.do(change) for change in plan.now.changes)
    return rounds, reboots


@steady(100)
@given(st.sampled_from(STARTS), st.lists(steps, max_size=4))
def test_whatever_happens_in_whatever_order_ends_in_the_wanted_state(start, faults):
    one = scenario.load(start)
    machine = Machine(one.want, one.facts)
    for after, torn, drifts, goes_on in faults:
        changes = machine.plan().now.changes
        for change in changes[:after]:
            machine.do(change)
        if torn and changes[after:]:
            machine.tear(changes[after])
        for happens in drifts:
            machine.raw = happens(machine.want, machine.raw)
        if goes_on:
            all(machine.do(change) for change in changes[after + 1 :])
    _, reboots = converge(machine)
    assert reboots <= REBOOTS


@pytest.mark.parametrize("happens", drift.ALL, ids=lambda one: one.__name__)
def test_each_drift_of_a_finished_host_is_seen_and_mended(happens):
    for start in ("debian12-finished", "debian13-finished"):
        one = scenario.load(start)
        machine = Machine(one.want, happens(one.want, one.facts))
        assert machine.raw != one.facts
        _, reboots = converge(machine)
        assert reboots <= 1
