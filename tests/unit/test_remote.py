"""What runs on hosts, in a folder of its own: the journal, rounds and followers."""

import fcntl
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from samples import CAPTURES

from provision.remote import apply, journal, locks, paths, runner
from provision.remote.collectors import run as run_collector
from provision.remote.command import Failed, Missing


@pytest.fixture
def host(tmp_path, monkeypatch):
    """The tool's places on a host, moved under a folder."""
    places = SimpleNamespace(
        RUN=tmp_path / "run",
        LOCK=tmp_path / "run" / "lock",
        ACTIVE=tmp_path / "run" / "active.json",
        LOG=tmp_path / "log",
        JOURNAL=tmp_path / "log" / "journal.jsonl",
    )
    for module in (paths, apply, journal, runner, run_collector):
        for name, path in vars(places).items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, path)
    return SimpleNamespace(root=tmp_path, **vars(places))


# --- journal -----------------------------------------------------------------------------------


def told(tail):
    return [event["event"] for event in tail.new()]


def test_a_run_s_events_in_order_each_once(host):
    tail = journal.Tail("mine")
    assert told(tail) == []
    journal.append("mine", "start", who="me")
    journal.append("other", "start")
    journal.append("mine", "done", id="a")
    assert told(tail) == ["start", "done"]
    assert told(tail) == []
    journal.append("mine", "end", ok=True)
    assert told(tail) == ["end"]
    assert told(journal.Tail("mine")) == ["start", "done", "end"]
    assert told(journal.Tail("other")) == ["start"]


def test_a_line_that_is_still_being_written_is_waited_for(host):
    tail = journal.Tail("mine")
    journal.append("mine", "start")
    line = json.dumps({"run": "mine", "event": "done"}).encode()
    with host.JOURNAL.open("ab") as file:
        file.write(line[:10])
        file.flush()
        assert told(tail) == ["start"]
        file.write(line[10:] + b"\n")
    assert told(tail) == ["done"]


def test_lines_that_are_no_events_are_passed_over(host):
    journal.append("mine", "start")
    with host.JOURNAL.open("ab") as file:
        file.write(b'{"run": "mine", "ev\n\xff\n[1]\n"mine"\n\n')
    journal.append("mine", "end")
    assert told(journal.Tail("mine")) == ["start", "end"]


def test_an_event_behind_a_torn_line_is_not_lost(host):
    journal.append("old", "start")
    with host.JOURNAL.open("ab") as file:
        file.write(b'{"run": "old", "ev')
    journal.append("new", "start")
    assert told(journal.Tail("new")) == ["start"]


def test_only_root_may_read_the_journal(host):
    journal.append("mine", "start")
    assert oct(host.JOURNAL.stat().st_mode & 0o777) == "0o600"
    assert oct(host.LOG.stat().st_mode & 0o777) == "0o700"


# --- the runner --------------------------------------------------------------------------------


def run(script, timeout=10.0):
    return {
        "do": "run",
        "argv": ["sh", "-c", script],
        "timeout": timeout,
        "env": {},
        "accepts": [0],
    }


def carry_out(host, changes, name="r1", after=None):
    """A whole round by the runner; its events as the journal has them."""
    folder = host.RUN / name
    folder.mkdir(parents=True)
    order = {
        "run": name,
        "who": "me@here",
        "after": after,
        "fingerprint": "f",
        "changes": changes,
        "allowed": {"install": {}, "remove": {}},
    }
    (folder / "round.json").write_text(json.dumps(order))
    runner.main(str(folder))
    return list(journal.Tail(name).new())


def words(events):
    return [(event["event"], event.get("id")) for event in events]


def test_a_round_that_goes_well(host):
    events = carry_out(
        host,
        [
            {"id": "a", "actions": [run("echo one"), run("echo two")]},
            {"id": "b", "actions": []},
        ],
    )
    assert words(events) == [
        ("start", None),
        ("change", "a"),
        ("done", "a"),
        ("change", "b"),
        ("done", "b"),
        ("end", None),
    ]
    assert (events[0]["who"], events[0]["changes"]) == ("me@here", ["a", "b"])
    assert (events[-1]["ok"], events[-1]["reboot"]) == (True, False)
    log = runner.log_path("r1")
    assert log.read_text() == "$ sh -c echo one\none\n$ sh -c echo two\ntwo\n"
    assert mode(log) == 0o600


def test_a_round_stops_at_the_first_change_that_fails(host):
    marks = [host.root / name for name in "abc"]
    events = carry_out(
        host,
        [
            {"id": "a", "actions": [run(f"touch {marks[0]}")]},
            {"id": "b", "actions": [run("echo why; exit 3"), run(f"touch {marks[1]}")]},
            {"id": "c", "actions": [run(f"touch {marks[2]}")]},
        ],
    )
    assert words(events)[-3:] == [("change", "b"), ("failed", "b"), ("end", None)]
    assert [mark.exists() for mark in marks] == [True, False, False]
    assert (events[-2]["reason"], events[-2]["hint"]) == ("sh exits 3", "")
    assert events[-2]["log"] == ["$ sh -c echo why; exit 3", "why"]
    assert (events[-1]["ok"], events[-1]["reboot"]) == (False, False)


def test_the_journal_gets_the_last_lines_of_a_failed_change_alone(host):
    lines = "; ".join(f"echo {n}" for n in range(50))
    events = carry_out(
        host,
        [
            {"id": "a", "actions": [run("echo before")]},
            {"id": "b", "actions": [run(f"{lines}; exit 1")]},
        ],
    )
    assert events[-2]["log"] == [str(n) for n in range(30, 50)]


def test_the_journal_gets_what_can_be_done_about_a_failure(host):
    text = CAPTURES / "apt" / "deb-torn.bookworm.txt"
    events = carry_out(host, [{"id": "a", "actions": [run(f"cat {text}; exit 1")]}])
    assert events[-2]["reason"] == "the package /root/torn.deb is damaged or cut short"
    assert "apt-get clean" in events[-2]["hint"]


def test_a_line_that_is_written_over_and_over_is_one_line_of_the_journal(host):
    progress = "".join(rf"(Reading database ... {n}%%\r" for n in range(5, 101, 5))
    script = f"printf 'Selecting\\n{progress}(Reading database ... done)\\n'; exit 1"
    events = carry_out(host, [{"id": "a", "actions": [run(script)]}])
    assert events[-2]["log"][1:] == ["Selecting", "(Reading database ... done)"]


def test_the_journal_and_the_log_tell_for_whom_the_run_waits(host, monkeypatch):
    looks = [locks.Holder(7, "apt"), None]
    monkeypatch.setattr(locks, "holder", lambda path: looks.pop(0))
    monkeypatch.setattr(locks, "POLL", 0.0)
    events = carry_out(host, [{"id": "a", "actions": [{"do": "index", "argv": ["true"]}]}])
    waiting = "waiting for /var/lib/apt/lists/lock: held by apt (pid 7)"
    assert [event["event"] for event in events] == ["start", "change", "waiting", "done", "end"]
    assert events[2]["reason"] == waiting
    assert runner.log_path("r1").read_text() == f"{waiting}\n$ true\n"


def test_a_fault_of_ours_fails_the_change_too(host):
    events = carry_out(host, [{"id": "a", "actions": [{"do": "dance"}]}])
    assert events[-2]["reason"] == "KeyError: 'dance'"
    assert events[-1]["ok"] is False


def test_a_round_with_a_reboot_ends_before_the_host_restarts(host, monkeypatch):
    asked = []
    monkeypatch.setattr(runner.os, "sync", lambda: None)
    monkeypatch.setattr(
        runner.subprocess,
        "run",
        lambda argv, **_: asked.append((argv, words(journal.Tail("r1").new()))),
    )
    events = carry_out(host, [{"id": "a", "actions": [{"do": "reboot"}]}])
    assert (events[-1]["ok"], events[-1]["reboot"]) == (True, True)
    assert asked == [(["systemctl", "reboot"], words(events))]


def test_a_host_restarts_although_the_run_s_folder_can_t_be_taken_away(host, monkeypatch):
    asked = []

    def busy(folder, ignore_errors=False):
        if not ignore_errors:
            raise OSError("busy")

    monkeypatch.setattr(runner.os, "sync", lambda: None)
    monkeypatch.setattr(runner.shutil, "rmtree", busy)
    monkeypatch.setattr(runner.subprocess, "run", lambda argv, **_: asked.append(argv))
    carry_out(host, [{"id": "a", "actions": [{"do": "reboot"}]}])
    assert asked == [["systemctl", "reboot"]]


def test_a_round_that_fails_does_not_restart_the_host(host, monkeypatch):
    changes = [
        {"id": "a", "actions": [{"do": "dance"}]},
        {"id": "b", "actions": [{"do": "reboot"}]},
    ]
    monkeypatch.setattr(runner.subprocess, "run", None)
    assert carry_out(host, changes)[-1]["reboot"] is False


def test_while_a_round_runs_the_host_says_whose_it_is(host):
    copy = host.root / "seen"
    carry_out(host, [{"id": "a", "actions": [run(f"cp {host.ACTIVE} {copy}")]}])
    seen = json.loads(copy.read_text())
    assert (seen["run"], seen["who"]) == ("r1", "me@here")
    assert not host.ACTIVE.exists()


def test_a_second_round_leaves_a_host_alone_that_has_one(host, monkeypatch):
    monkeypatch.setattr(runner, "LOCK_PATIENCE", 0.0)
    lock = runner.take_lock(0.0)
    try:
        events = carry_out(host, [{"id": "a", "actions": [run(f"touch {host.root / 'a'}")]}])
    finally:
        lock.close()
    assert words(events) == [("end", None)]
    assert (events[0]["ok"], events[0]["stale"]) == (False, True)
    assert not (host.root / "a").exists()


def test_a_round_that_was_planned_before_another_run_is_left_undone(host):
    mark = host.root / "a"
    carry_out(host, [], name="r1")
    assert journal.last_run() == "r1"
    events = carry_out(host, [{"id": "a", "actions": [run(f"touch {mark}")]}], name="r2")
    assert (words(events), events[0]["stale"], mark.exists()) == ([("end", None)], True, False)
    again = [{"id": "a", "actions": [run(f"touch {mark}")]}]
    assert carry_out(host, again, name="r3", after="r1")[-1]["ok"]
    assert (mark.exists(), journal.last_run()) == (True, "r3")


def test_a_host_on_which_nothing_was_ever_run(host):
    assert journal.last_run() is None


def test_the_lock_is_free_once_its_holder_is_gone(host):
    first = runner.take_lock(0.0)
    assert runner.take_lock(0.0) is None
    first.close()
    second = runner.take_lock(0.0)
    assert second is not None
    second.close()


def test_a_run_that_is_going_on_is_a_fact(host):
    lock = runner.take_lock(0.0)
    active = {"run": "r1", "who": "me@here", "since": 1.0, "pid": os.getpid()}
    host.ACTIVE.write_text(json.dumps(active))
    with lock:
        assert run_collector.collect({}) == {"run": "r1", "who": "me@here", "since": 1.0}
    with pytest.raises(Missing, match="no run is going on"):
        run_collector.collect({})


def test_a_run_that_does_not_say_who_it_is(host, monkeypatch):
    monkeypatch.setattr(run_collector, "PATIENCE", 0.0)
    with runner.take_lock(0.0), pytest.raises(Failed, match="does not say who it is"):
        run_collector.collect({})


def test_looking_whether_a_run_goes_on_is_no_run(host):
    runner.take_lock(0.0).close()
    with host.LOCK.open("rb") as other_probe:
        fcntl.flock(other_probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(Missing, match="no run is going on"):
            run_collector.collect({})


def mode(path):
    return path.stat().st_mode & 0o777


# --- following ---------------------------------------------------------------------------------


def followed(name):
    said = []
    apply.follow(name, said.append)
    return said


def test_a_run_is_followed_to_its_end_with_its_output(host):
    carry_out(host, [{"id": "a", "actions": [run("echo one")]}])
    said = followed("r1")
    assert said[0] == {"event": "following", "run": "r1"}
    assert [event["line"] for event in said if event["event"] == "output"] == [
        "$ sh -c echo one",
        "one",
    ]
    assert words(e for e in said[1:] if e["event"] != "output") == [
        ("start", None),
        ("change", "a"),
        ("done", "a"),
        ("end", None),
    ]


def test_a_run_that_is_followed_anew_gives_its_output_and_its_events_in_the_same_orders(host):
    """Which of the two comes first may differ: each is counted apart."""
    host.LOG.mkdir()
    steps = iter(
        [
            lambda: journal.append("r1", "start"),
            lambda: journal.append("r1", "change", id="a"),
            lambda: runner.log_path("r1").write_text("one\ntwo\n"),
            lambda: journal.append("r1", "done", id="a"),
            lambda: journal.append("r1", "end", ok=True),
        ]
    )
    first = []

    def say(event):
        first.append(event)
        next(steps, lambda: None)()

    apply.follow("r1", say)
    again = followed("r1")
    for stream in (True, False):
        assert [e for e in first if (e["event"] == "output") is stream] == [
            e for e in again if (e["event"] == "output") is stream
        ]
    assert [e["line"] for e in again if e["event"] == "output"] == ["one", "two"]


def test_of_an_output_only_whole_lines_are_said(host):
    host.LOG.mkdir()
    output = apply._Output(runner.log_path("r1"))
    assert output.new() == []
    with runner.log_path("r1").open("wb", buffering=0) as log:
        log.write(b"one\ntw")
        assert [event["line"] for event in output.new()] == ["one"]
        log.write("o\né".encode()[:-1])
        assert [event["line"] for event in output.new()] == ["two"]
        log.write("é".encode()[-1:] + b"\n")
        assert [event["line"] for event in output.new()] == ["é"]


@pytest.mark.parametrize("events", [["start", "change"], []])
def test_a_run_that_died_is_lost(host, monkeypatch, events):
    monkeypatch.setattr(apply, "START_PATIENCE", 0.0)
    for event in events:
        journal.append("r1", event)
    said = [event["event"] for event in followed("r1")]
    assert said == ["following", *events, "lost"]


def test_a_run_that_was_started_before_is_not_lost_while_it_holds_the_lock(host, monkeypatch):
    monkeypatch.setattr(apply, "START_PATIENCE", 0.0)
    monkeypatch.setattr(apply, "HEARTBEAT", 0.0)
    journal.append("r1", "start")
    lock = runner.take_lock(0.0)
    said = []

    def say(event):
        said.append(event["event"])
        if said.count("alive") == 2:
            journal.append("r1", "end", ok=True)
            lock.close()

    apply.follow("r1", say)
    assert "lost" not in said
    assert [word for word in said if word != "alive"] == ["following", "start", "end"]


def test_a_round_is_handed_to_a_process_of_its_own(host, monkeypatch):
    started = []
    monkeypatch.setattr(apply, "_as_unit", lambda name, argv: started.append(argv))
    monkeypatch.setattr(apply.subprocess, "Popen", lambda argv, **options: started.append(argv))
    monkeypatch.setattr(apply, "follow", lambda name, say: say({"event": "following", "run": name}))
    said = []
    apply.apply(b"zip", {"who": "me", "changes": []}, said.append)
    (argv,) = started
    folder = Path(argv[-1])
    assert folder == host.RUN / said[0]["run"]
    assert json.loads((folder / "round.json").read_text())["run"] == folder.name
    assert (folder / "remote.zip").read_bytes() == b"zip"
    assert [mode(folder), mode(folder / "round.json")] == [0o700, 0o600]
