"""The host's own account: what is written, what is read back, and what no reader stumbles over."""

import json

from provision.remote import journal


def told(tail):
    return [event["event"] for event in tail.new()]


def test_a_run_s_events_in_order_each_once(places):
    tail = journal.Tail("mine")
    assert told(tail) == []
    journal.append("mine", "start", who="me")
    journal.append("other", "start")
    journal.append("mine", "done", id="a")
    assert told(tail) == ["start", "done"]
    assert told(tail) == []
    journal.append("mine", "end", result="done")
    assert told(tail) == ["end"]
    assert told(journal.Tail("mine")) == ["start", "done", "end"]
    assert told(journal.Tail("other")) == ["start"]


def test_a_line_that_is_still_being_written_is_waited_for(places):
    tail = journal.Tail("mine")
    journal.append("mine", "start")
    line = json.dumps({"run": "mine", "event": "done"}).encode()
    with places.JOURNAL.open("ab") as file:
        file.write(line[:10])
        file.flush()
        assert told(tail) == ["start"]
        file.write(line[10:] + b"\n")
    assert told(tail) == ["done"]


def test_lines_that_are_no_events_are_passed_over(places):
    journal.append("mine", "start")
    with places.JOURNAL.open("ab") as file:
        file.write(b'{"run": "mine", "ev\n\xff\n[1]\n"mine"\n\n')
        file.write(b'{"run": "mine"}\n{"run": "mine", "event": 5}\n{"event": "start"}\n')
        file.write(b"[" * 100_000 + b"\n")
    journal.append("mine", "end")
    assert told(journal.Tail("mine")) == ["start", "end"]
    assert journal.last_run() == "mine"


def test_an_event_behind_a_torn_line_is_not_lost(places):
    journal.append("old", "start")
    with places.JOURNAL.open("ab") as file:
        file.write(b'{"run": "old", "ev')
    journal.append("new", "start")
    assert told(journal.Tail("new")) == ["start"]


def test_only_root_may_read_the_journal(places):
    journal.append("mine", "start")
    assert oct(places.JOURNAL.stat().st_mode & 0o777) == "0o600"
    assert oct(places.LOG.stat().st_mode & 0o777) == "0o700"


def begin(run, boot="now", **more):
    journal.append(run, "start", boot=boot, **more)


def test_a_host_on_which_nothing_was_ever_run(places):
    assert (journal.last_run(), journal.latest(3), journal.failed("now")) == (None, [], [])


def test_the_latest_runs_are_whole_and_in_order(places):
    begin("a")
    begin("b")
    journal.append("never-begun", "end", result="stale")
    journal.append("a", "end", result="done")
    begin("c")
    journal.append("b", "end", result="failed")
    said = [(event["run"], event["event"]) for event in journal.latest(2)]
    assert said == [("b", "start"), ("c", "start"), ("b", "end")]
    assert journal.last_run() == "c"
    assert len(journal.latest(9)) == 5


def test_torn_lines_hide_no_other_event(places):
    begin("a")
    with places.JOURNAL.open("ab") as file:
        file.write(b'{"run": "b", "event": "sta')
    begin("c")
    with places.JOURNAL.open("ab") as file:
        file.write(b'[1]\n\xff\n{"run": "c", "event": "en')
    assert [event["run"] for event in journal.latest(2)] == ["a", "c"]


def test_what_failed_in_this_boot_s_last_run(places):
    begin("a")
    journal.append("a", "done", id="nouveau:x")
    journal.append("a", "failed", id="reload:nvidia", reason="modprobe exits 1")
    journal.append("a", "end", result="failed")
    assert journal.failed("now") == ["reload:nvidia"]
    assert journal.failed("another boot") == []
    journal.append("never-begun", "end", result="stale")
    assert journal.failed("now") == ["reload:nvidia"]
    begin("b")
    assert journal.failed("now") == []


def test_a_failure_before_the_restart_is_no_failure_of_this_boot(places):
    begin("a", boot="before")
    journal.append("a", "failed", id="reload:nvidia", reason="modprobe exits 1")
    assert (journal.failed("before"), journal.failed("now")) == (["reload:nvidia"], [])
