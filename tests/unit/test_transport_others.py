"""This computer itself, and hosts that answer from a script."""

import os
import sys

import pytest

from provision.errors import ProvisionError, TransportError
from provision.transport import local as local_module
from provision.transport.local import Local
from provision.transport.recorded import Recorded


@pytest.fixture
def local(monkeypatch):
    """This computer, as root sees it."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return Local("h")


def cost(host):
    return (host.cost.sessions, host.cost.execs)


def python(code):
    return (sys.executable, "-c", code)


# --- local -------------------------------------------------------------------------------------


def test_a_command_here_gets_its_input_and_gives_output_and_exit_code(local):
    code = "import sys; print(sys.stdin.read()); print('no', file=sys.stderr); sys.exit(7)"
    done = local.run(python(code), b"one", deadline=10)
    assert (done.out, done.err, done.exit) == ("one\n", "no\n", 7)
    assert cost(local) == (0, 1)


def test_a_command_here_that_is_not_there(local):
    with pytest.raises(TransportError, match=r"h: .*no-such-program"):
        local.run(("no-such-program",), b"", deadline=10)


def test_a_command_here_that_never_answers(local):
    with pytest.raises(TransportError, match=r"h: no answer within 0\.05 s"):
        local.run(("sleep", "60"), b"", deadline=0.05)


def test_a_followed_command_here_gives_its_lines(local):
    assert list(local.follow(("cat",), b"one\ntwo\n", silence=10)) == ["one", "two"]
    assert cost(local) == (0, 1)


def test_a_followed_command_here_that_falls_silent_is_ended(local):
    with pytest.raises(TransportError, match=r"h: silent for 0\.05 s"):
        list(local.follow(("sleep", "60"), b"", silence=0.05))


def test_a_followed_command_here_that_fails_gives_its_lines_first(local):
    lines = local.follow(python("print('one', flush=True); raise SystemExit(3)"), b"", silence=10)
    assert next(lines) == "one"
    with pytest.raises(ProvisionError, match="h: the follower exits 3"):
        next(lines)


def test_output_here_that_is_no_text_is_kept_readable(local):
    assert local.run(("cat",), b"a\xffb", deadline=10).out == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    ("user", "root", "prefix"),
    [(0, True, []), (0, False, []), (1000, False, []), (1000, True, ["/usr/bin/sudo", "-n", "--"])],
)
def test_sudo_is_asked_only_by_a_user_who_is_not_root(monkeypatch, user, root, prefix):
    started = []
    monkeypatch.setattr(os, "geteuid", lambda: user)

    def run(argv, **_options):
        started.append(list(argv))
        raise OSError("not here")

    monkeypatch.setattr(local_module.subprocess, "run", run)
    with pytest.raises(TransportError, match="h: not here"):
        Local("h").run(("cat", "a"), b"", deadline=10, root=root)
    assert started == [[*prefix, "cat", "a"]]


def test_a_followed_command_here_that_is_not_there(local):
    with pytest.raises(TransportError, match=r"h: .*no-such-program"):
        list(local.follow(("no-such-program",), b"", silence=10))


def test_a_followed_command_here_that_does_not_read_its_input(local):
    with pytest.raises(ProvisionError, match="h: the follower exits 1"):
        list(local.follow(("false",), bytes(1 << 20), silence=10))


def test_a_followed_command_here_that_leaves_its_input_unread_and_stays(local):
    with pytest.raises(TransportError, match=r"h: silent for 0\.05 s"):
        list(local.follow(("sleep", "60"), bytes(1 << 20), silence=0.05))


def test_a_command_here_that_does_not_read_its_input(local):
    assert local.run(("false",), bytes(1 << 20), deadline=10).exit == 1


# --- recorded ----------------------------------------------------------------------------------


def test_a_recorded_host_answers_in_order_and_counts():
    host = Recorded("h", [("one", "1"), ("two", ["2", "3"])])
    assert host.run((), b"... one ...", deadline=1).out == "1"
    assert list(host.follow((), b"two", silence=1)) == ["2", "3"]
    assert cost(host) == (1, 2)


def test_a_recorded_host_that_is_left_counts_another_session():
    host = Recorded("h", [("", "1"), ("", "2")])
    host.run((), b"", deadline=1)
    host.close()
    host.run((), b"", deadline=1)
    assert cost(host) == (2, 2)


def test_a_recorded_host_raises_what_is_scripted():
    host = Recorded("h", [("", TransportError("gone"))])
    with pytest.raises(TransportError, match="gone"):
        host.run((), b"", deadline=1)


def test_a_recorded_host_raises_what_is_scripted_for_lines_too():
    with pytest.raises(TransportError, match="gone"):
        next(Recorded("h", [("", TransportError("gone"))]).follow((), b"", silence=1))


def test_a_recorded_host_raises_in_the_middle_of_its_lines():
    lines = Recorded("h", [("", ["one", TransportError("gone")])]).follow((), b"", silence=1)
    assert next(lines) == "one"
    with pytest.raises(TransportError, match="gone"):
        next(lines)


@pytest.mark.parametrize(
    ("script", "message"),
    [([], "nothing more was expected"), ([("two", "2")], "expected a request with 'two'")],
)
def test_a_recorded_host_refuses_what_is_not_scripted(script, message):
    with pytest.raises(AssertionError, match=message):
        Recorded("h", script).run((), b"one", deadline=1)
