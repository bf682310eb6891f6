"""Restarts as they go wrong on real hosts, and modules that are exchanged without one."""

from __future__ import annotations

import pytest

from provision import engine, follow, lab
from provision.errors import HostKeyError
from provision.follow import NotConverged
from provision.target import lab_spec
from tests.lab.command import wait_for
from tests.lab.faults import KERNEL

pytestmark = pytest.mark.matrix

NEWER = "6.12.95-lab-amd64"


class Told:
    """What the loop says, and something that is done when it first says this."""

    def __init__(self, word="", do=lambda: None):
        self.events = []
        self._word, self._do = word, do

    def __call__(self, event):
        first = event["event"] == self._word and self._word not in self.words()
        self.events.append(event)
        if first:
            self._do()

    def words(self):
        return [event["event"] for event in self.events]


def provision(trial, told=None):
    return engine.provision(trial.target(), told or (lambda _: None))


def console(trial) -> str:
    return trial.there.console.read_text(errors="replace")


@pytest.fixture
def held_down(trial):
    """A host that a restart is due on, and that stays down after it until `release`."""
    there = trial("reboot")
    hold = there.there.console.parent / "hold-reboot"
    hold.touch()
    yield there, lambda: hold.unlink(missing_ok=True)
    hold.unlink(missing_ok=True)


def test_a_process_on_the_gpus_is_named_its_service_stopped_and_the_host_restarted(trial):
    there = trial("reboot")
    pid = there.ask("systemctl show --property=MainPID --value trainer")
    before = engine.look(there.target())
    (change,) = before.plan.now.changes
    assert f"the GPUs are used by sleep (pid {pid})" in change.before
    seen = provision(there)
    assert seen.plan.empty
    assert "$ systemctl stop -- trainer.service" in there.log()
    assert (seen.facts.boot.id == before.facts.boot.id, seen.facts.gpu_users) == (False, [])
    assert there.boots() == 1


def test_a_module_that_nobody_uses_is_exchanged_without_a_restart(trial):
    there = trial("reload")
    before = engine.look(there.target()).facts
    seen = provision(there)
    assert seen.plan.empty
    assert seen.facts.boot.id == before.boot.id
    assert (before.driver.loaded, seen.facts.driver.loaded) == ("580.159.04", "590.48.01")
    assert there.boots() == 0


def test_a_host_that_does_not_come_back(held_down, monkeypatch):
    there, release = held_down
    monkeypatch.setattr(follow, "AWAY_DEADLINE", 4.0)
    with pytest.raises(NotConverged, match="has not come back") as error:
        provision(there)
    assert "console" in error.value.hint
    release()
    lab.up(lab_spec(there.entry), say=lambda _: None)
    assert provision(there).plan.empty
    assert there.boots() == 1


def test_a_host_that_comes_back_with_another_kernel(trial):
    """An older one, as where the boot menu's choice was saved: it converges, and that is said."""
    there = trial("reboot")
    there.mess(f"apt-get -qq -y install linux-image-{NEWER}; echo {KERNEL} > /etc/lab/boot-kernel")
    told = Told()
    seen = provision(there, told)
    assert seen.plan.empty
    (event,) = (event for event in told.events if event["event"] == "other-kernel")
    assert (event["kernel"], event["expected"]) == (KERNEL, NEWER)
    assert seen.facts.boot.kernel == KERNEL
    assert there.boots() == 1


def test_a_host_that_comes_back_with_another_key(held_down):
    there, release = held_down
    down = console(there).count("ended with 133")

    def exchange():
        wait_for(lambda: console(there).count("ended with 133") > down, "the host going down")
        lab.rekey(there.entry.name)
        release()

    with pytest.raises(HostKeyError, match=r"after its restart, .*CHANGED") as error:
        provision(there, Told("rebooting", exchange))
    assert error.value.exit_code == 1


def test_a_host_that_is_without_network_for_a_time(trial, monkeypatch):
    monkeypatch.setattr(follow, "PATIENCE", 1.0)
    there = trial("reboot")
    late = "/etc/systemd/system/ssh.service.d/late.conf"
    there.mess(
        f"mkdir -p {late.rpartition('/')[0]}; printf '[Service]\\nExecStartPre=sleep 8\\n' > {late}"
    )
    told = Told()
    assert provision(there, told).plan.empty
    assert told.words().count("waiting") > 2
    assert there.boots() == 1


def test_a_host_that_says_yes_and_stays(trial, monkeypatch):
    """What holds it up is named. Its sshd goes on as long as what was started after it does."""
    monkeypatch.setattr(follow, "SAME_BOOT_DEADLINE", 4.0)
    there = trial("reboot")
    unit = (
        "[Unit]",
        "After=ssh.service",
        "[Service]",
        'ExecStart=/bin/sh -c "trap : TERM; while :; do sleep 1; done"',
        "TimeoutStopSec=infinity",
    )
    lines = " ".join(f"'{line}'" for line in unit)
    there.mess(
        f"printf '%s\\n' {lines} > /etc/systemd/system/stubborn.service; systemctl start stubborn"
    )

    def shutting_down():
        wait_for(lambda: "stubborn" in there.ask("systemctl list-jobs"), "the shutdown")

    with pytest.raises(NotConverged, match=r"still works on: stubborn\.service stop running"):
        provision(there, Told("rebooting", shutting_down))
    there.crash()
    assert provision(there).plan.empty


def test_a_restart_that_somebody_forbids_is_not_begun(trial):
    there = trial("reboot")
    there.mess(
        "systemd-run --quiet --unit=copies systemd-inhibit --what=shutdown --mode=block "
        "--who=backup --why='a copy is made' sleep infinity; sleep 0.5"
    )
    code, said = there.run("provision")
    assert (code, "a restart is forbidden by backup (a copy is made)" in said) == (1, True), said
    assert there.events() == []
    there.mess("systemctl stop copies")
    assert there.run("provision")[0] == 0
    assert there.boots() == 1
