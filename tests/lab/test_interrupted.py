"""People and programs that come in between: two commands, a closed laptop, apt by hand, kill -9."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import signal
import stat
import time

import pytest

from provision import engine
from provision.follow import NotConverged
from tests.lab.command import wait_for
from tests.lab.faults import HELD, KINDS, OLDER
from tests.lab.test_dirty import PARTS, WITHOUT_PINS
from tests.lab.trial import JOURNAL, Trial

pytestmark = pytest.mark.matrix

NEWER = "595.58.03"
UPGRADED = f"""
    {WITHOUT_PINS} install {" ".join(f"{part}={NEWER}-1" for part in PARTS)}
"""
"""What an upgrade does that takes no notice of our pins."""


def begun(trial: Trial, kind: str, *words: str):
    """A `provision` in the midst of a kind's change."""
    command = trial.start("provision", *words)
    trial.await_change(KINDS[kind].change, KINDS[kind].moment)
    return command


def results(trial: Trial) -> list[str]:
    return [event["result"] for event in trial.events() if event["event"] == "end"]


# --- commands that meet ------------------------------------------------------------------------


def test_a_second_provision_joins_the_run_that_goes_on(trial):
    there = trial("headers")
    first = begun(there, "headers")
    with there.paused():
        second = there.start("provision")
        second.await_word(" is going on since ")
    assert [first.end()[0], second.end()[0]] == [0, 0]
    run = there.events()[0]
    assert f"run {run['run']} of {run['who']} is going on since " in second.said
    assert results(there) == ["done"]


def test_apply_says_who_holds_the_host_and_waits_where_asked(trial):
    there = trial("toolkit")
    file = str(there.folder / "plan.json")
    assert there.run("plan", "--output", file)[0] == 0
    provision = begun(there, "toolkit")
    with there.paused():
        code, said = there.run("apply", file)
        run = there.events()[0]
        assert (code, f"run {run['run']} of {run['who']} is going on since" in said) == (1, True)
        waiting = there.start("apply", "--wait", file)
        waiting.await_word(" is going on since ")
    assert provision.end()[0] == 0
    code, said = waiting.end()
    assert (code, "the host gives another plan than the saved one" in said) == (3, True)


def test_apply_goes_on_when_the_run_it_waited_for_has_died(trial):
    there = trial("toolkit")
    file = str(there.folder / "plan.json")
    assert there.run("plan", "--output", file)[0] == 0
    provision = there.start("provision")
    there.await_change(KINDS["toolkit"].change, "$ apt-get")  # it reads its lists, for a second
    with there.paused():
        waiting = there.start("apply", "--wait", file)
        waiting.await_word(" is going on since ")
        there.signal_run(signal.SIGKILL)
    assert provision.end()[0] == 1
    code, said = waiting.end()
    assert (code, "nothing to do" in said) == (0, True), said


def test_a_laptop_sleeps_while_the_run_goes_on(trial):
    there = trial("driver")
    command = begun(there, "driver")
    command.process.send_signal(signal.SIGSTOP)
    time.sleep(10)
    command.process.send_signal(signal.SIGCONT)
    assert command.end()[0] == 0, command.said
    assert results(there) == ["done", "done"]


# --- interruptions -----------------------------------------------------------------------------


def test_an_interruption_without_a_terminal_leaves_the_run_alone(trial):
    there = trial("headers")
    command = begun(there, "headers")
    command.process.send_signal(signal.SIGINT)
    code, said = command.end()
    assert (code, "a run that was started goes on there" in said) == (130, True)
    assert there.run("provision")[0] == 0
    assert results(there) == ["done"]


@pytest.mark.parametrize("answer", ["cancel", "detach"])
def test_an_interruption_at_a_terminal_asks(trial, answer):
    there = trial("headers")
    there.mess(KINDS["toolkit"].disk)
    master, slave = pty.openpty()
    command = there.start("provision", terminal=slave)
    os.close(slave)
    there.await_change(KINDS["headers"].change, KINDS["headers"].moment)
    with there.paused():
        command.process.send_signal(signal.SIGINT)
        said = b""
        while b"before their next change? [d] " not in said:
            said += os.read(master, 4096)
        os.write(master, f"{answer[0]}\n".encode())
        if answer == "cancel":
            cancel = there.root / "run/firstlight/cancel.json"
            wait_for(lambda: there.ask("ls /run/firstlight/cancel.json") != "", str(cancel))
    code = command.process.wait(60)
    os.close(master)
    assert code == 130
    assert there.run("provision")[0] == 0
    assert results(there) == (["cancelled", "done"] if answer == "cancel" else ["done"])


# --- what others do on the host ----------------------------------------------------------------


def test_an_upgrade_between_two_rounds_is_caught_by_the_next_plan(trial):
    there = trial("driver")
    upgraded = []

    def tell(event):
        if event["event"] == "end" and not upgraded:
            upgraded.append(event)
            there.mess(UPGRADED.replace("install", "--allow-change-held-packages install"))

    seen = engine.provision(there.target(), tell)
    assert seen.plan.empty
    done = [event["id"] for event in there.events() if event["event"] == "done"]
    assert done == ["driver:590.48.01", "driver:590.48.01", "reload:nvidia"]


def test_what_apt_would_do_beyond_the_plan_stops_the_round(trial):
    there = trial("driver")

    def tell(event):
        if event["event"] == "planned" and not there.events():
            there.mess(f"{WITHOUT_PINS} install cuda-drivers={OLDER}-1")

    with pytest.raises(NotConverged, match=f"more than the plan says: .*cuda-drivers {OLDER}"):
        engine.provision(there.target(), tell)
    assert engine.provision(there.target(), lambda _: None).plan.empty


def test_stacks_change_there_and_back_and_all_else_survives(trial):
    there = trial()
    target = there.target()
    system = target.want.stack.system
    newer = system.driver.model_copy(update={"version": NEWER})
    stack = target.want.stack.model_copy(
        update={"system": system.model_copy(update={"driver": newer})}
    )
    other = dataclasses.replace(target, want=dataclasses.replace(target.want, stack=stack))
    before = engine.look(target).facts
    for one, version in ((other, NEWER), (target, system.driver.version)):
        seen = engine.provision(one, lambda _: None)
        assert (seen.facts.driver.loaded, seen.facts.driver.library) == (version, version)
    for name in ("cuda-toolkit-12-8", "cuda-toolkit-13-1", "cuda-keyring"):
        assert seen.facts.dpkg.packages[name] == before.dpkg.packages[name]
    held = [name for name, package in seen.facts.dpkg.packages.items() if package.hold]
    assert sorted(held) == sorted(HELD)
    assert seen.facts.boot.id == before.boot.id


def test_a_dpkg_that_was_killed_is_repaired_as_a_change_that_is_shown(trial):
    there = trial()
    there.mess(
        """
        echo 30 > /etc/lab/dkms-slow
        systemd-run --quiet --unit=byhand --setenv=DEBIAN_FRONTEND=noninteractive \\
            apt-get -qq -y install --reinstall nvidia-kernel-open-dkms
        until dpkg -s nvidia-kernel-open-dkms | grep -q half-configured; do sleep 0.1; done
        systemctl kill --signal=KILL byhand
        echo 0 > /etc/lab/dkms-slow
        """
    )
    _, said = there.run("plan")
    assert "~ dpkg:dpkg: interrupted: " in said
    assert there.run("provision")[0] == 0
    assert there.ask("dpkg --audit") == ""


def test_somebody_else_holds_the_lock_of_dpkg_for_a_time(trial):
    there = trial("toolkit")
    hold = (
        "import fcntl, time; lock = open('/var/lib/dpkg/lock-frontend', 'r+'); "
        "fcntl.lockf(lock, fcntl.LOCK_EX); time.sleep(5)"
    )
    there.mess(f'systemd-run --quiet python3 -c "{hold}"; sleep 0.3')
    begin = time.monotonic()
    assert there.run("provision")[0] == 0
    assert time.monotonic() - begin > 4


# --- the account -------------------------------------------------------------------------------


def test_a_torn_line_of_the_journal_stops_nothing(trial):
    there = trial("pin")
    assert there.run("provision")[0] == 0
    journal = there.root / JOURNAL
    with journal.open("r+b") as file:
        file.truncate(journal.stat().st_size - 20)
    before = history(there)
    assert before[-1]["result"] == "died"
    there.mess(KINDS["pin"].disk)
    assert there.run("provision")[0] == 0
    after = history(there)
    assert after[:-1] == before
    assert (after[-1]["result"], [step["result"] for step in after[-1]["steps"]]) == (
        "done",
        ["done"],
    )


def history(trial: Trial) -> list[dict]:
    code, said = trial.run("history", "--json")
    assert code == 0
    return json.loads(said)[trial.entry.name]


def test_journal_logs_and_saved_plans_are_for_their_owner_alone(trial):
    there = trial("pin")
    file = there.folder / "plan.json"
    assert there.run("plan", "--output", str(file))[0] == 0
    assert there.run("provision")[0] == 0
    run = there.events()[0]["run"]
    paths = [file, there.root / JOURNAL, (there.root / JOURNAL).with_name(f"{run}.log")]
    assert [oct(stat.S_IMODE(path.stat().st_mode)) for path in paths] == ["0o600"] * 3
