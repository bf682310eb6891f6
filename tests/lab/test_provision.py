"""A bare lab host's way to its stack, over real SSH, through a real reboot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from provision import engine, inventory, lab, promises
from provision.planner import plan
from provision.target import Target, lab_spec, target

ROOT = Path(__file__).parents[2]
MODEL = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


@dataclass
class Journey:
    """One host's way: what was seen before every round and after the last."""

    target: Target
    looks: list[engine.Look] = field(default_factory=list)

    @property
    def last(self) -> engine.Look:
        return self.looks[-1]


KINDS = {
    "bookworm": ("{suite: bookworm}", "lab"),
    "trixie": ("{suite: trixie}", "lab-cuda131"),  # nvcc 12.8 can't work with its glibc
    "ubuntu2204": ("{flavour: ubuntu2204}", "lab"),
    "ubuntu2404": ("{flavour: ubuntu2404, suite: bookworm}", "lab"),
}
"""Kind of host → its lab entry and stack; Ubuntu is Debian in Ubuntu's dress."""


def lab_host(kind: str) -> inventory.Host:
    settings, stack = KINDS[kind]
    text = (
        f"default: t-way-{kind}\nhosts:\n  t-way-{kind}:\n    lab: {settings}\n"
        f"    stack: {stack}\n    gpus: {{count: 8, model: {MODEL}}}\n"
    )
    return inventory.parse(text, "test.yaml").select()[0]


@pytest.fixture(scope="module", params=KINDS)
def journey(request):
    host = lab_host(request.param)
    lab.up(lab_spec(host), fresh=True, say=lambda _: None)
    way = Journey(target(host))
    try:
        way.looks.append(engine.look(way.target))
        while not way.last.plan.empty:
            engine.apply(way.target, way.last, lambda _: None)
            way.looks.append(engine.look(way.target))
            assert len(way.looks) < 8, "the rounds do not end"
        yield way
    finally:
        way.target.transport.close()
        lab.down(host.name, discard=True)


def test_a_bare_host_takes_four_rounds(journey):
    """Sources and index; packages; reboot; what runs on the driver; then nothing."""
    stages = [{c.stage.name for c in seen.plan.now.changes} for seen in journey.looks]
    assert stages == [{"SOURCES"}, {"PACKAGES"}, {"REBOOT"}, {"RUNTIME"}, set()]


def test_the_plan_of_the_bare_host_foresees_the_later_rounds(journey):
    """Half done, the plan is what the bare host's plan expected of that round."""
    foreseen = [[c.id for c in one.changes] for one in journey.looks[0].plan.rounds]
    for number, seen in enumerate(journey.looks[:-1]):
        now = [change.id for change in seen.plan.now.changes]
        # a service that its package starts by itself is no longer to be started
        assert set(now) <= set(foreseen[number])


def test_the_probe_bears_out_every_promise(journey):
    for before, after in zip(journey.looks, journey.looks[1:], strict=False):
        for change in before.plan.now.changes:
            assert promises.holds(after.raw, change.makes) == [], change.id


def test_the_reboot_was_one(journey):
    boots = {seen.facts.boot.id for seen in journey.looks}
    assert len(boots) == 2


def test_a_right_host_costs_one_session_and_one_command(journey):
    before = lab.sshd_sessions(journey.target.host.name)
    there = target(lab_host(journey.target.host.name.removeprefix("t-way-")))
    seen = engine.provision(there, lambda _: None)
    there.transport.close()
    assert seen.plan.empty
    assert (there.transport.cost.sessions, there.transport.cost.execs) == (1, 1)
    assert lab.sshd_sessions(journey.target.host.name) - before == 1


def test_nothing_of_a_run_stays_but_its_account(journey):
    """Journal and log are for root alone; no file of ours that was only on the way is left."""
    said = journey.target.transport.run(
        ("find", "/var/log/firstlight", "/run/firstlight", "-perm", "/077", "-type", "f"),
        b"",
        deadline=10,
    )
    assert (said.exit, said.out) == (0, "")
    stray = journey.target.transport.run(
        ("find", "/etc", "/opt", "/usr", "-xdev", "-name", "*firstlight-new*"), b"", deadline=30
    )
    assert stray.out == ""


def test_planning_is_the_same_from_a_saved_probe(journey):
    """Facts are data: what was recorded plans as it did."""
    for seen in journey.looks:
        again = plan(seen.plan.host, journey.target.want, json.loads(json.dumps(seen.raw)))
        assert again.to_data() == seen.plan.to_data()


@pytest.fixture(scope="module")
def alias(journey, tmp_path_factory):
    """The lab host as a user's own: gpu01, an alias in an OpenSSH client configuration."""
    folder = tmp_path_factory.mktemp("alias")
    there = lab.find(journey.target.host.name)
    config = there.ssh_config.read_text().replace(f"Host {there.name}", "Host gpu01")
    (folder / "ssh_config").write_text(config)
    (folder / "inventory.yaml").write_text(
        f"default: gpu01\nhosts:\n  gpu01:\n    ssh_config: {folder}/ssh_config\n"
        f"    stack: {journey.target.want.stack.name}\n"
        f"    gpus: {{count: 8, model: {MODEL}}}\n"
        f"    repository: {{url: '{there.repository}', fingerprint: {there.key_fingerprint}}}\n"
    )
    return {**os.environ, inventory.VARIABLE: str(folder / "inventory.yaml")}


def test_provision_by_alias(alias):
    argv = [sys.executable, "-m", "invoke", "provision", "--host", "gpu01"]
    said = subprocess.run(argv, cwd=ROOT, env=alias, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "nothing to do" in said.stdout
    assert "1 SSH session(s), 1 command(s)" in said.stdout


def test_infra_tests_by_alias(alias):
    argv = [sys.executable, "-m", "pytest", "tests/infra", "--host", "gpu01", "-q"]
    said = subprocess.run(argv, cwd=ROOT, env=alias, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout
    assert " passed" in said.stdout
    assert "failed" not in said.stdout
