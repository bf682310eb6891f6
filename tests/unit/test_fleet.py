"""Several hosts at a time: what one's failure does to the others, and what an interruption does."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from provision import fleet
from provision.errors import TransportError, UsageError
from provision.follow import Cancelled
from provision.report import Report
from provision.stop import Stop

pytestmark = pytest.mark.usefixtures("an_inventory")

UNREACHABLE = TransportError("no route", hint="look at the cable")


def each(*names, groups=(), found=None, stop=None, report=None, **ends):
    """Works on hosts of which each ends with a code or an error, 0 unless told otherwise."""

    def do(host):
        end = ends.get(host.name, 0)
        if isinstance(end, BaseException):
            raise end
        if found is not None:
            found[host.name] = end
        return end

    return fleet.each(report or Report(), names, groups, do, found, stop=stop)


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [
        (0, 0, 0),
        (0, 3, 3),
        (3, UNREACHABLE, 1),
        (UNREACHABLE, 0, 1),
        (UNREACHABLE, Cancelled("stopped"), 130),
        (Cancelled("stopped"), UsageError("wrong stack"), 2),
        (0, OSError("no space"), 1),
    ],
)
def test_the_worst_code_of_all_hosts_counts(a, b, code):
    assert each("a", "b", a=a, b=b) == code


def test_one_host_s_failure_is_its_own(capsys):
    found = {}
    assert each(groups=["all"], a=UNREACHABLE, found=found) == 1
    assert capsys.readouterr().err == "error: no route\n\nhint: look at the cable\n"
    assert found == {"a": {"error": "no route", "hint": "look at the cable"}, "b": 0, "c": 0}


def test_what_this_computer_refuses_is_told_with_the_host(capsys):
    assert each(a=OSError("no space")) == 1
    assert capsys.readouterr().err == "error: a: no space\n"


def test_several_hosts_end_with_a_table_of_what_became_of_each(capsys):
    each(groups=["all"], a=UNREACHABLE, c=3)
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    assert [row[:2] for row in rows] == [["a", "no route"], ["b", "done"], ["c", "differs"]]
    assert all(re.fullmatch(r"\d+\.\d s", row[2]) for row in rows)


def test_one_host_alone_has_no_table(capsys):
    each("a")
    assert capsys.readouterr().out == ""


def test_hosts_are_worked_on_side_by_side():
    together = threading.Barrier(3, timeout=10)
    assert fleet.each(Report(), (), ["all"], lambda host: together.wait() and 0) == 0


def test_data_of_several_hosts_stand_in_the_order_asked():
    first, found = threading.Event(), {}

    def do(host):
        if host.name == "a":
            assert first.wait(10)
        found[host.name] = {}
        first.set()
        return 0

    assert fleet.each(Report(), ["a", "b"], (), do, found) == 0
    assert list(found) == ["a", "b"]


@pytest.mark.parametrize(("names", "groups"), [(["z"], []), ([], ["z"]), (["a", "z"], [])])
def test_an_unknown_name_ends_2_before_any_host_is_asked(names, groups):
    assert fleet.each(Report(), names, groups, None) == 2


def test_in_the_data_an_unknown_name_is_the_only_thing(capsys):
    found = {}
    assert each("nope", found=found) == 2
    assert found["error"].endswith("there is no host 'nope'")
    assert capsys.readouterr().err == f"error: {found['error']}\n\nhint: {found['hint']}\n"
    assert found.keys() == {"error", "hint"}


def test_without_names_it_is_the_default_host():
    found = {}
    each(found=found)
    assert list(found) == ["a"]


# --- an interruption ---------------------------------------------------------------------------


class Interrupted(Report):
    """Somebody interrupts the work, `times` times, and gives an answer when asked."""

    def __init__(self, times, answer):
        super().__init__()
        self.times, self.answer, self.shown = times, answer, []

    @contextmanager
    def working(self, hosts):
        self.shown.append(list(hosts))
        if len(self.shown) <= self.times:
            raise KeyboardInterrupt
        yield

    def ask(self, question):
        assert "[d]etach, or [c]ancel" in question
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def detached(monkeypatch, capsys):
    """Ends the work as the process would end; what is said by then."""

    def call(**more):
        monkeypatch.setattr(fleet.os, "_exit", sys.exit)
        with pytest.raises(SystemExit) as caught:
            each("a", **more)
        return caught.value.code, capsys.readouterr().err

    return call


@pytest.mark.parametrize("answer", ["", "\n", "d\n", "x\n", EOFError(), KeyboardInterrupt()])
def test_an_interruption_leaves_the_runs_alone_unless_told_otherwise(detached, answer):
    stop = Stop()
    code, err = detached(stop=stop, report=Interrupted(1, answer))
    assert (code, stop.is_set()) == (130, False)
    assert err.startswith("error: interrupted\n")
    assert "the same command follows it, `invoke cancel` stops it" in err


def test_where_no_run_can_be_cancelled_nobody_is_asked(detached):
    code, err = detached(stop=None, report=Interrupted(1, "c\n"))
    assert code == 130
    assert err == "error: interrupted\n\nhint: the same command begins again\n"


@pytest.mark.parametrize("answer", ["c\n", " C ", "cancel\n"])
def test_the_runs_are_cancelled_and_waited_for(answer, capsys):
    stop = Stop()
    report = Interrupted(1, answer)

    def do(host):
        if host.name == "b":
            assert stop.wait(10)
            raise Cancelled("b: cancelled")
        return 0

    assert fleet.each(report, ["a", "b"], (), do, stop=stop) == 130
    assert "b" in report.shown[1]
    assert "error: b: cancelled\n" in capsys.readouterr().err


def test_a_second_interruption_does_not_wait_for_the_runs(detached):
    stop = Stop()
    code, err = detached(stop=stop, report=Interrupted(2, "c\n"))
    assert (code, stop.is_set()) == (130, True)
    assert "error: interrupted" in err


WORK = """
import os, signal, sys, threading
from contextlib import contextmanager
from provision.stop import Stop
from provision.fleet import each
from provision.report import Report

for terminal in sys.argv[2:]:
    os.login_tty(int(terminal))
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
stop, never = Stop(), threading.Event()

class Told(Report):
    @contextmanager
    def working(self, hosts):
        with super().working(hosts):
            print("at work", flush=True)
            yield

def do(host):
    stop.wait()
    if sys.argv[1] == "stubborn":
        never.wait()
    return 130

code = each(Told(), ["a"], (), do, stop=stop)
print("ended", flush=True)
sys.exit(code)
"""
PATIENCE = 30.0
"""Seconds for a word of a process: it is there at once unless the machine is busy."""


def test_without_a_terminal_an_interruption_leaves_the_runs_alone():
    argv = [sys.executable, "-c", WORK, "willing"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as work:
        assert work.stdout.readline() == b"at work\n"
        work.send_signal(signal.SIGINT)
        out, err = work.communicate(timeout=PATIENCE)
    assert (work.returncode, out) == (130, b"")
    assert err.startswith(b"error: interrupted\n")


class Terminal:
    """A process on a terminal of its own, and who types there."""

    def __init__(self, how):
        self.typist, there = pty.openpty()
        argv = [sys.executable, "-c", WORK, how, str(there)]
        env = {**os.environ, "TERM": "xterm"}
        self.process = subprocess.Popen(argv, env=env, pass_fds=[there])
        os.close(there)
        self.seen = b""

    def expect(self, word):
        """Wait for a word, and forget what came up to it."""
        end = time.monotonic() + PATIENCE
        while word not in self.seen:
            assert select.select([self.typist], [], [], end - time.monotonic())[0], self.seen
            self.seen += os.read(self.typist, 4096)
        self.seen = self.seen.partition(word)[2]

    def type(self, text):
        os.write(self.typist, text)

    def ends(self):
        return self.process.wait(PATIENCE)


@pytest.fixture
def terminal():
    opened = []

    def call(how):
        opened.append(Terminal(how))
        return opened[-1]

    yield call
    for one in opened:
        one.process.kill()
        one.process.wait()
        os.close(one.typist)


CTRL_C, ASKED = b"\x03", b"[c]ancel them before their next change? [d] "


def test_at_a_terminal_c_cancels_the_runs(terminal):
    there = terminal("willing")
    there.expect(b"at work")
    there.type(CTRL_C)
    there.expect(ASKED)
    there.type(b"c\n")
    there.expect(b"ended")
    assert there.ends() == 130


@pytest.mark.parametrize("answer", [b"\n", CTRL_C], ids=["enter", "ctrl-c"])
def test_at_a_terminal_anything_else_leaves_the_runs_alone(terminal, answer):
    there = terminal("willing")
    there.expect(b"at work")
    there.type(CTRL_C)
    there.expect(ASKED)
    there.type(answer)
    there.expect(b"interrupted")
    assert there.ends() == 130


def test_at_a_terminal_a_second_ctrl_c_does_not_wait(terminal):
    there = terminal("stubborn")
    there.expect(b"at work")
    there.type(CTRL_C)
    there.expect(ASKED)
    there.type(b"c\n")
    there.expect(b"at work")
    there.type(CTRL_C)
    there.expect(b"interrupted")
    assert there.ends() == 130


def test_nothing_new_begins_while_the_question_is_open():
    stop, begun = Stop(), threading.Event()
    stop.asking()

    def begins():
        stop.wait_for_answer()
        begun.set()

    worker = threading.Thread(target=begins, daemon=True)
    worker.start()
    assert not begun.wait(0.05)
    stop.answered()
    assert begun.wait(10)
