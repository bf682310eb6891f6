"""A run is started apart from whoever asked, and followed from where its log is known."""

import json
from pathlib import Path

import pytest
from rounds import carry_out, mode, run, words

from provision.remote import apply, journal, lock, runner


def followed(name, **known):
    said = []
    apply.follow(name, said.append, **known)
    return said


def lines(said):
    return [event["line"] for event in said if event["event"] == "output"]


def others(said):
    return [event["event"] for event in said if event["event"] != "output"]


def test_a_run_is_followed_to_its_end_with_its_output(places):
    carry_out(places, [{"id": "a", "actions": [run("echo one")]}])
    said = followed("r1")
    assert said[0] == {"event": "following", "run": "r1", "lines": 0}
    assert lines(said) == ["$ sh -c echo one", "one"]
    assert words(e for e in said[1:] if e["event"] != "output") == [
        ("start", None),
        ("change", "a"),
        ("done", "a"),
        ("end", None),
    ]


def test_a_run_that_is_followed_anew_gives_its_output_and_its_events_in_the_same_orders(places):
    """Which of the two comes first may differ: each is counted apart."""
    places.LOG.mkdir()
    steps = iter(
        [
            lambda: journal.append("r1", "start"),
            lambda: journal.append("r1", "change", id="a"),
            lambda: runner.log_path("r1").write_text("one\ntwo\n"),
            lambda: journal.append("r1", "done", id="a"),
            lambda: journal.append("r1", "end", result="done"),
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
    assert lines(again) == ["one", "two"]


@pytest.mark.parametrize(
    ("known", "rest", "events"),
    [
        ((0, 0), ["$ sh -c echo one", "one"], ["start", "change", "done", "end"]),
        ((2, 1), ["one"], ["done", "end"]),
        ((1, 2), [], ["change", "done", "end"]),
        ((0, None), [], ["start", "change", "done", "end"]),
    ],
)
def test_what_is_known_already_is_not_said_again(places, known, rest, events):
    carry_out(places, [{"id": "a", "actions": [run("echo one")]}])
    said = followed("r1", events=known[0], lines=known[1])
    assert (lines(said), others(said)) == (rest, ["following", *events])


def test_who_joins_a_run_hears_only_what_is_still_to_come_and_can_go_on_from_there(places):
    places.LOG.mkdir()
    log = runner.log_path("r1").open("ab", buffering=0)
    journal.append("r1", "start")
    log.write(b"one\ntwo\nth")
    said = []

    def say(event):
        said.append(event)
        if event["event"] == "following":
            log.write(b"ree\nfour\n")
        elif event.get("line") == "three":
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        apply.follow("r1", say, lines=None)
    assert said[0] == {"event": "following", "run": "r1", "lines": 2}
    assert lines(said) == ["three"]
    journal.append("r1", "end", result="done")
    again = followed("r1", events=0, lines=said[0]["lines"] + 1)
    assert lines(again) == ["four"]
    log.close()


def test_a_run_that_has_no_log_yet_can_be_joined(places):
    steps = iter(
        [
            lambda: journal.append("r1", "start"),
            lambda: runner.log_path("r1").write_text("one\n"),
            lambda: journal.append("r1", "end", result="done"),
        ]
    )
    said = []

    def say(event):
        said.append(event)
        next(steps, lambda: None)()

    apply.follow("r1", say, lines=None)
    assert (said[0]["lines"], lines(said)) == (0, ["one"])


def test_of_an_output_only_whole_lines_are_said(places):
    places.LOG.mkdir()
    output = apply._Output(runner.log_path("r1"), 0)
    assert output.new() == []
    with runner.log_path("r1").open("wb", buffering=0) as log:
        log.write(b"one\ntw")
        assert [event["line"] for event in output.new()] == ["one"]
        log.write("o\né".encode()[:-1])
        assert [event["line"] for event in output.new()] == ["two"]
        log.write("é".encode()[-1:] + b"\n")
        assert [event["line"] for event in output.new()] == ["é"]


@pytest.mark.parametrize("events", [["start", "change"], []])
def test_a_run_that_died_is_lost(places, monkeypatch, events):
    monkeypatch.setattr(apply, "START_PATIENCE", 0.0)
    for event in events:
        journal.append("r1", event)
    said = [event["event"] for event in followed("r1")]
    assert said == ["following", *events, "lost"]


def test_a_run_that_was_started_before_is_not_lost_while_it_holds_the_lock(places, monkeypatch):
    monkeypatch.setattr(apply, "START_PATIENCE", 0.0)
    monkeypatch.setattr(apply, "HEARTBEAT", 0.0)
    journal.append("r1", "start")
    holder = lock.take_lock()
    said = []

    def say(event):
        said.append(event["event"])
        if said.count("alive") == 2:
            journal.append("r1", "end", result="done")
            holder.close()

    apply.follow("r1", say)
    assert "lost" not in said
    assert [word for word in said if word != "alive"] == ["following", "start", "end"]


def test_a_round_is_handed_to_a_process_of_its_own(places, monkeypatch):
    started = []
    monkeypatch.setattr(apply, "_as_unit", lambda name, argv: started.append(argv))
    monkeypatch.setattr(apply.subprocess, "Popen", lambda argv, **options: started.append(argv))
    monkeypatch.setattr(apply, "follow", lambda name, say: say({"event": "following", "run": name}))
    said = []
    apply.apply(b"zip", {"who": "me", "changes": []}, said.append)
    (argv,) = started
    folder = Path(argv[-1])
    assert folder == places.RUN / said[0]["run"]
    assert json.loads((folder / "round.json").read_text())["run"] == folder.name
    assert (folder / "remote.zip").read_bytes() == b"zip"
    assert [mode(folder), mode(folder / "round.json")] == [0o700, 0o600]
