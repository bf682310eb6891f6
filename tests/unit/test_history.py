"""What was done on a host: runs out of a journal's events, and as people see them."""

import pytest

from provision import history
from provision.errors import UsageError
from provision.report import Report


def begun(run="r1", *, at=100.0, changes=("a", "b")):
    who = {"who": "me@here", "fingerprint": "f", "boot": "x"}
    return {"event": "start", "run": run, "time": at, **who, "changes": list(changes)}


def event(name, run="r1", **fields):
    return {"event": name, "run": run, "time": 101.0, **fields}


FIRST = [event("change", id="a"), event("done", id="a", seconds=1.5)]
WELL = [
    *(begun(), *FIRST, event("change", id="b"), event("done", id="b", seconds=2.0)),
    event("end", result="done", reboot=True) | {"time": 104.0},
]
BADLY = [
    *(begun(), *FIRST, event("change", id="b")),
    event("failed", id="b", reason="[x] sh exits 1", log=["$ sh", "oops [/x]"]),
    event("end", result="failed", reboot=False),
]
STOPPED = [
    *(begun(), *FIRST, event("cancelled", by="them@there", before="b")),
    event("end", result="cancelled", reboot=False),
]
KILLED = [begun(), *FIRST, event("change", id="b")]


def told(events, *, running=None, boot="x"):
    """What a host says whose boot is the one that the runs were started in."""
    return {"events": events, "running": running, "boot": boot}


def only(events, **now):
    (past,) = history.runs(told(events, **now))
    return past


def test_a_run_with_all_that_was_done():
    past = only(WELL)
    assert (past.run, past.who, past.fingerprint) == ("r1", "me@here", "f")
    assert (past.started, past.ended, past.result, past.reboot) == (100.0, 104.0, "done", True)
    assert past.changes == ["a", "b"]
    assert [(step.id, step.result, step.seconds) for step in past.steps] == [
        ("a", "done", 1.5),
        ("b", "done", 2.0),
    ]


def test_a_run_that_failed_says_at_what_and_why():
    past = only(BADLY)
    assert (past.result, past.reboot) == ("failed", False)
    last = past.steps[-1]
    assert (last.id, last.result, last.seconds) == ("b", "failed", None)
    assert (last.reason, last.log) == ("[x] sh exits 1", ["$ sh", "oops [/x]"])


def test_a_run_that_was_stopped_says_by_whom():
    past = only(STOPPED)
    assert (past.result, past.by) == ("cancelled", "them@there")
    assert [step.id for step in past.steps] == ["a"]


@pytest.mark.parametrize(
    ("now", "result", "restarted"),
    [
        ({"running": "r1"}, "going on", False),
        ({}, "died", False),
        ({"running": "r2"}, "died", False),
        ({"boot": "y"}, "died", True),
    ],
    ids=["it has the lock", "nobody has it", "another run has it", "in an earlier boot"],
)
def test_a_run_without_an_end_goes_on_or_died(now, result, restarted):
    past = only(KILLED, **now)
    assert (past.result, past.ended, past.restarted) == (result, None, restarted)
    assert past.steps[-1].result == "begun"


def test_a_run_that_ended_did_not_die_whatever_came_after():
    """It may have ended between the look at the lock and the look at the journal."""
    for now in ({"boot": "y"}, {"running": "r1"}):
        past = only(WELL, **now)
        assert (past.result, past.restarted) == ("done", False)


def test_a_change_that_is_done_twice_ends_where_it_was_begun_last():
    twice = [begun(), *FIRST, event("change", id="a"), event("failed", id="a", reason="r")]
    assert [step.result for step in only(twice).steps] == ["done", "failed"]


def test_runs_that_overlap_are_told_apart_in_the_order_of_their_starts():
    late = [begun("r2", at=200.0), event("end", "r2", result="failed", reboot=False)]
    found = history.runs(told([*WELL[:3], *late, *WELL[3:]]))
    assert [(past.run, past.result) for past in found] == [("r1", "done"), ("r2", "failed")]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"event": 5, "run": "r1"},
        {"event": "dance", "run": "r1"},
        {"event": "done", "run": "r1", "id": "never begun", "seconds": 1.0},
        {"event": "failed", "run": "r1", "id": "never begun"},
        {"event": "end", "run": "never begun", "result": "stale", "reboot": False},
        {"event": "change", "run": "never begun", "id": "a"},
        {"event": "change", "id": "a"},
    ],
)
def test_what_is_no_event_of_a_run_is_passed_over(odd):
    whole = told([odd, *WELL[:-1], odd, WELL[-1]])
    assert history.runs(whole) == history.runs(told(WELL))


def test_events_that_say_little():
    past = only([{"event": "start", "run": "r1"}, {"event": "change", "run": "r1", "id": "a"}])
    assert (past.who, past.started, past.changes) == ("?", 0.0, [])
    past = only([begun(), FIRST[0], event("failed", id="a"), event("end")])
    assert (past.steps[0].reason, past.steps[0].log, past.result) == ("", [], "?")


def test_a_run_as_data():
    data = only(BADLY).to_data()
    assert data["steps"][1]["log"] == ["$ sh", "oops [/x]"]
    assert (data["run"], data["result"], data["ended"]) == ("r1", "failed", 101.0)


def test_all_runs_or_the_one_asked_for():
    events = told([*WELL, begun("r2")])
    assert [past.run for past in history.select(events, "", "h")] == ["r1", "r2"]
    assert [past.run for past in history.select(events, "r2", "h")] == ["r2"]
    assert history.select(told([]), "", "h") == []


@pytest.mark.parametrize(
    ("events", "known"),
    [([], "none"), ([begun(f"r{n}") for n in range(7)], "r2, r3, r4, r5, r6")],
)
def test_a_run_that_the_journal_does_not_have(events, known):
    with pytest.raises(UsageError) as caught:
        history.select(told(events), "r9", "h")
    assert caught.value.what == "h: its journal has no run r9"
    assert caught.value.hint == f"the latest: {known}"


# --- for people --------------------------------------------------------------------------------


@pytest.fixture
def shown(capsys):
    """The lines that a report prints of some events."""

    def call(events, *, whole=False, **now):
        Report().history("gpu01", history.runs(told(events, **now)), whole=whole)
        out, err = capsys.readouterr()
        assert err == ""
        return out.splitlines()

    return call


@pytest.mark.parametrize(
    ("events", "line"),
    [
        (WELL, "done, restarted  2 of 2 changes, 4.0 s"),
        (BADLY, "failed at b  1 of 2 changes, 1.0 s"),
        (STOPPED, "cancelled by them@there  1 of 2 changes, 1.0 s"),
        (KILLED, "died at b: it was killed  1 of 2 changes"),
        (KILLED[:-1], "died: it was killed  1 of 2 changes"),
        ([begun(changes=()), event("end", result="done")], "done  0 of 0 changes, 1.0 s"),
    ],
)
def test_a_run_in_one_line(shown, events, line):
    assert shown(events) == [f"gpu01  r1  {line}, by me@here"]


def test_a_run_that_goes_on_or_ended_with_its_host_in_one_line(shown):
    assert shown(KILLED, running="r1") == ["gpu01  r1  going on at b  1 of 2 changes, by me@here"]
    (line,) = shown(KILLED, boot="y")
    how = "it was killed or the host went down, and was restarted since"
    assert line == f"gpu01  r1  died at b: {how}  1 of 2 changes, by me@here"


def test_a_line_in_a_pipe_is_as_wide_as_it_must_be(shown):
    name = "driver:" + "5" * 200
    (line,) = shown([begun(), event("change", id=name)])
    assert f"died at {name}: " in line


def test_the_changes_of_a_run_with_the_end_of_a_log(shown):
    assert shown(BADLY, whole=True)[1:] == [
        "gpu01    ✓ a  1.5 s",
        "gpu01    ✗ b: [x] sh exits 1",
        "gpu01      | $ sh",
        "gpu01      | oops [/x]",
    ]


def test_changes_that_were_not_begun_are_named(shown):
    assert shown(STOPPED, whole=True)[-1] == "gpu01      b: not begun"
    assert shown(KILLED, whole=True)[-1] == "gpu01    … b: no end"
    assert shown(KILLED, whole=True, running="r1")[-1] == "gpu01    … b: going on"


def test_a_host_without_runs(shown):
    assert shown([], whole=True) == ["gpu01  its journal has no run"]
