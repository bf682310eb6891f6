"""The live lines that a terminal shows while work goes on."""

import io
import re

import pytest
from rich.console import Console

from provision.report import Report
from provision.report.live import Progress


def test_on_a_pipe_nothing_is_shown_while_work_goes_on(capsys):
    report = Report()
    with report.working(["a", "b"]):
        report.event("a", {"event": "change", "id": "driver:590"})
        report.event("a", {"event": "output", "line": "Unpacking"})
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def terminal():
    """Live lines on a terminal that is a string, and what they show at this moment."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    progress = Progress(console)

    def shown():
        paper = Console(file=io.StringIO(), width=100)
        paper.print(progress._table())
        lines = paper.file.getvalue().splitlines()
        return [re.sub(r"\s+", " ", re.sub(r"\d+ s", "N s", line)).strip() for line in lines]

    progress.lines = shown
    return progress


def test_a_host_s_line_shows_its_step_and_the_last_of_its_output(terminal):
    with terminal.shown(["a", "b"]):
        assert terminal.lines() == ["a N s connecting", "b N s connecting"]
        terminal.event("a", {"event": "change", "id": "driver:590"})
        for line in ("Unpacking", "Setting up [x]"):
            terminal.event("a", {"event": "output", "line": line})
        terminal.event("b", {"event": "rebooting"})
        assert terminal.lines() == ["a N s driver:590 Setting up [x]", "b N s rebooting"]
        terminal.event("a", {"event": "change", "id": "toolkits:13.1"})
        assert terminal.lines()[0] == "a N s toolkits:13.1"


@pytest.mark.parametrize(
    ("event", "step"),
    [
        ("probing", "probing"),
        ("joining", "following a run that goes on"),
        ("uploading", "uploading"),
        ("reconnecting", "connecting again"),
        ("rebooting", "rebooting"),
        ("back", "probing"),
        ("done", "connecting"),
        ("alive", "connecting"),
    ],
)
def test_what_a_step_is_called(terminal, event, step):
    with terminal.shown(["a"]):
        terminal.event("a", {"event": event})
        assert terminal.lines() == [f"a N s {step}"]


def test_a_host_that_is_done_needs_no_line(terminal):
    with terminal.shown(["a", "b"]):
        terminal.done("a")
        terminal.event("a", {"event": "probing"})
        assert terminal.lines() == ["b N s connecting"]


def test_a_line_never_takes_two_rows(terminal):
    with terminal.shown(["a"]):
        terminal.event("a", {"event": "output", "line": "x" * 500})
        assert len(terminal.lines()) == 1


def test_however_long_the_output_is_the_host_and_its_step_are_shown(terminal):
    with terminal.shown(["gpu01"]):
        terminal.event("gpu01", {"event": "change", "id": "driver:590"})
        terminal.event("gpu01", {"event": "output", "line": "x" * 500})
        (line,) = terminal.lines()
        assert line.startswith("gpu01 N s driver:590 xxx")


def test_on_a_terminal_the_lines_are_gone_when_the_work_is_done(terminal):
    with terminal.shown(["a"]):
        pass
    assert "\x1b[2K" in terminal._console.file.getvalue()


def test_what_a_host_waits_for_stands_in_its_line(terminal):
    with terminal.shown(["a"]):
        terminal.event("a", {"event": "change", "id": "apt_index:index"})
        terminal.event("a", {"event": "waiting", "reason": "waiting for L: held by apt"})
        assert terminal.lines() == ["a N s apt_index:index waiting for L: held by apt"]
