"""The runner in a folder of its own: rounds, the lock, and who asks a round to stop."""

import fcntl
import json
import os

import pytest
from rounds import carry_out, mode, run, words

from provision.remote import journal, lock, runner
from provision.remote.collectors import run as run_collector
from provision.remote.command import Failed, Missing


def test_a_round_that_goes_well(places):
    events = carry_out(
        places,
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
    assert (events[-1]["result"], events[-1]["reboot"]) == ("done", False)
    log = runner.log_path("r1")
    assert log.read_text() == "$ sh -c echo one\none\n$ sh -c echo two\ntwo\n"
    assert mode(log) == 0o600


def test_a_round_stops_at_the_first_change_that_fails(places):
    marks = [places.root / name for name in "abc"]
    events = carry_out(
        places,
        [
            {"id": "a", "actions": [run(f"touch {marks[0]}")]},
            {"id": "b", "actions": [run("echo why; exit 3"), run(f"touch {marks[1]}")]},
            {"id": "c", "actions": [run(f"touch {marks[2]}")]},
        ],
    )
    assert words(events)[-3:] == [("change", "b"), ("failed", "b"), ("end", None)]
    assert [mark.exists() for mark in marks] == [True, False, False]
    assert events[-2]["reason"] == "sh exits 3"
    assert events[-2]["log"] == ["$ sh -c echo why; exit 3", "why"]
    assert (events[-1]["result"], events[-1]["reboot"]) == ("failed", False)


def test_the_journal_gets_the_last_lines_of_a_failed_change_alone(places):
    lines = "; ".join(f"echo {n}" for n in range(50))
    events = carry_out(
        places,
        [
            {"id": "a", "actions": [run("echo before")]},
            {"id": "b", "actions": [run(f"{lines}; exit 1")]},
        ],
    )
    assert events[-2]["log"] == [str(n) for n in range(30, 50)]


def test_the_journal_gets_no_passwords_and_no_endless_lines(places):
    script = "echo 401 https://user:secret@deb.example/x; printf %9000s x; exit 1"
    events = carry_out(places, [{"id": "a", "actions": [run(script)]}])
    _, refused, long = events[-2]["log"]
    assert refused == "401 https://…@deb.example/x"
    assert len(long) == runner.WIDTH
    assert "secret" not in places.JOURNAL.read_text()


def test_a_fault_of_ours_fails_the_change_too(places):
    events = carry_out(places, [{"id": "a", "actions": [{"do": "dance"}]}])
    assert events[-2]["reason"] == "KeyError: 'dance'"
    assert events[-1]["result"] == "failed"


def test_a_round_with_a_reboot_ends_before_the_host_restarts(places, monkeypatch):
    asked = []
    monkeypatch.setattr(runner.os, "sync", lambda: None)
    monkeypatch.setattr(
        runner.subprocess,
        "run",
        lambda argv, **_: asked.append((argv, words(journal.Tail("r1").new()))),
    )
    events = carry_out(places, [{"id": "a", "actions": [{"do": "reboot"}]}])
    assert (events[-1]["result"], events[-1]["reboot"]) == ("done", True)
    assert asked == [(["systemctl", "reboot"], words(events))]


def test_a_host_restarts_although_the_run_s_folder_can_t_be_taken_away(places, monkeypatch):
    asked = []

    def busy(folder, ignore_errors=False):
        if not ignore_errors:
            raise OSError("busy")

    monkeypatch.setattr(runner.os, "sync", lambda: None)
    monkeypatch.setattr(runner.shutil, "rmtree", busy)
    monkeypatch.setattr(runner.subprocess, "run", lambda argv, **_: asked.append(argv))
    carry_out(places, [{"id": "a", "actions": [{"do": "reboot"}]}])
    assert asked == [["systemctl", "reboot"]]


def test_a_round_that_fails_does_not_restart_the_host(places, monkeypatch):
    changes = [
        {"id": "a", "actions": [{"do": "dance"}]},
        {"id": "b", "actions": [{"do": "reboot"}]},
    ]
    monkeypatch.setattr(runner.subprocess, "run", None)
    assert carry_out(places, changes)[-1]["reboot"] is False


def test_while_a_round_runs_the_host_says_whose_it_is(places):
    copy = places.root / "seen"
    carry_out(places, [{"id": "a", "actions": [run(f"cp {places.ACTIVE} {copy}")]}])
    seen = json.loads(copy.read_text())
    assert (seen["run"], seen["who"]) == ("r1", "me@here")
    assert not places.ACTIVE.exists()


def test_a_second_round_leaves_a_host_alone_that_has_one(places):
    with lock.take_lock():
        events = carry_out(places, [{"id": "a", "actions": [run(f"touch {places.root / 'a'}")]}])
    assert words(events) == [("end", None)]
    assert (events[0]["result"], events[0]["reboot"]) == ("stale", False)
    assert not (places.root / "a").exists()


def test_a_round_that_was_planned_before_another_run_is_left_undone(places):
    mark = places.root / "a"
    carry_out(places, [], name="r1")
    assert journal.last_run() == "r1"
    events = carry_out(places, [{"id": "a", "actions": [run(f"touch {mark}")]}], name="r2")
    assert (words(events), mark.exists()) == ([("end", None)], False)
    assert events[0]["result"] == "stale"
    again = [{"id": "a", "actions": [run(f"touch {mark}")]}]
    assert carry_out(places, again, name="r3", after="r1")[-1]["result"] == "done"
    assert (mark.exists(), journal.last_run()) == (True, "r3")


def test_the_lock_is_free_once_its_holder_is_gone(places):
    first = lock.take_lock()
    assert lock.take_lock() is None
    first.close()
    second = lock.take_lock()
    assert second is not None
    second.close()


def test_a_run_that_is_going_on_is_a_fact(places):
    active = {"run": "r1", "who": "me@here", "since": 1.0, "pid": os.getpid()}
    with lock.take_lock():
        places.ACTIVE.write_text(json.dumps(active))
        assert run_collector.collect({}) == {"run": "r1", "who": "me@here", "since": 1.0}
    with pytest.raises(Missing, match="no run is going on"):
        run_collector.collect({})


def test_a_run_that_does_not_say_who_it_is(places, monkeypatch):
    monkeypatch.setattr(lock, "NAMELESS", 0.0)
    with lock.take_lock(), pytest.raises(Failed, match="does not say who it is"):
        run_collector.collect({})


def test_looking_whether_a_run_goes_on_is_no_run(places):
    lock.take_lock().close()
    with places.LOCK.open("rb") as other_probe:
        fcntl.flock(other_probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(Missing, match="no run is going on"):
            run_collector.collect({})


# --- what was uploaded -------------------------------------------------------------------------


@pytest.fixture
def uploads(places):
    """Three uploads, to one of which an environment's feed links, and one that is under way."""
    places.BLOBS.mkdir()
    for name in ("linked", "used-up", ".coming.new"):
        (places.BLOBS / name).touch()
    feed = places.ENVIRONMENTS / "main/feed/00ff"
    feed.mkdir(parents=True)
    (feed / "a.whl").symlink_to(places.BLOBS / "linked")
    return lambda: sorted(path.name for path in places.BLOBS.iterdir())


def test_a_round_that_is_done_leaves_those_uploads_that_a_feed_links_to(places, uploads):
    carry_out(places, [{"id": "a", "actions": []}])
    assert uploads() == [".coming.new", "linked"]


def test_a_round_that_fails_leaves_all_for_the_next(places, uploads):
    carry_out(places, [{"id": "a", "actions": [run("false")]}])
    assert uploads() == [".coming.new", "linked", "used-up"]


# --- a run that is to stop ---------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """In place of what changes do: asks a run to stop; and the answers."""
    answers = []

    def ask(action, context):
        answers.append(lock.cancel(action["cancel"], "them@there"))

    monkeypatch.setattr(runner, "carry_out", ask)
    return answers


def asks(run):
    return {"do": "ask", "cancel": run}


def test_a_run_stops_before_the_next_change(places, asked, monkeypatch):
    monkeypatch.setattr(runner.subprocess, "run", None)
    changes = [{"id": "a", "actions": [asks("r1")]}, {"id": "b", "actions": [{"do": "reboot"}]}]
    events = carry_out(places, changes)
    assert asked == [True]
    assert words(events) == [
        ("start", None),
        ("change", "a"),
        ("done", "a"),
        ("cancelled", None),
        ("end", None),
    ]
    assert (events[-2]["by"], events[-2]["before"]) == ("them@there", "b")
    assert (events[-1]["result"], events[-1]["reboot"]) == ("cancelled", False)
    assert not places.CANCEL.exists()


def test_who_stops_a_run_at_its_last_change_stops_what_would_come_next(places, asked):
    events = carry_out(places, [{"id": "a", "actions": [asks("r1")]}])
    assert (asked, events[-1]["result"]) == ([True], "cancelled")
    assert (events[-3]["event"], events[-3]["id"]) == ("done", "a")
    assert events[-2]["before"] == runner.LATER
    assert not places.CANCEL.exists()


def test_a_run_goes_on_when_another_is_to_stop(places, asked):
    changes = [{"id": "a", "actions": [asks("r0")]}, {"id": "b", "actions": []}]
    events = carry_out(places, changes)
    assert (asked, events[-1]["result"]) == ([False], "done")


def test_what_an_earlier_run_was_asked_concerns_no_later_one(places):
    places.RUN.mkdir()
    places.CANCEL.write_text(json.dumps({"run": "r0", "by": "them@there"}))
    assert carry_out(places, [{"id": "a", "actions": []}])[-1]["result"] == "done"
    assert not places.CANCEL.exists()


def test_where_no_run_goes_on_none_is_asked_to_stop(places):
    assert lock.cancel("r1", "them@there") is False
    carry_out(places, [])
    assert lock.cancel("r1", "them@there") is False
    with lock.take_lock():  # a run that has not yet said who it is
        assert lock.cancel("r1", "them@there") is False
    assert not places.CANCEL.exists()


def test_a_run_that_died_can_t_be_asked(places):
    lock.take_lock().close()
    places.ACTIVE.write_text(json.dumps({"run": "r1", "who": "me@here", "since": 0.0}))
    assert lock.cancel("r1", "them@there") is False
