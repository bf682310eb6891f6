"""The package that is sent to hosts, and what is made of their answers."""

import ast
import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from samples import WANT, Says, frames

from provision import facts, resources, wire
from provision.errors import ProvisionError
from provision.remote import apply, entry, journal, lock, paths
from provision.transport import LIMIT
from provision.transport.recorded import Recorded


def modules():
    with zipfile.ZipFile(io.BytesIO(wire.package())) as archive:
        return {name: ast.parse(archive.read(name)) for name in archive.namelist()}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module


def test_the_package_is_the_same_bytes_for_the_same_code():
    first = wire.package()
    wire.package.cache_clear()
    assert wire.package() == first


def test_the_package_holds_only_what_runs_on_hosts():
    names = list(modules())
    assert len(names) == len(set(names))
    assert [
        name
        for name in names
        if name != "provision/__init__.py"
        and not (name.startswith("provision/remote/") and name.endswith(".py"))
    ] == []
    assert {"provision/__init__.py", "provision/remote/entry.py"} <= set(names)


def test_the_package_imports_only_the_standard_library_and_itself():
    inside = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in modules()
    }
    wrong = {
        f"{file} imports {name}"
        for file, tree in modules().items()
        for name in imported(tree)
        if name.split(".")[0] not in sys.stdlib_module_names and name not in inside
    }
    assert wrong == set()


def test_a_request_goes_in_frames_behind_the_package():
    host = Says('{"event":"stored"}')
    wire.put(host, "abc", b"content")
    package, request, content = frames(host.stdin)
    assert package == wire.package()
    assert json.loads(request) == {"do": "put", "sha256": "abc"}
    assert content == b"content"


def local(*frames, before=b""):
    """The bootstrap on this computer, as a host would run it."""
    stdin = before + wire.MARK
    stdin += b"".join(len(frame).to_bytes(8, "big") + frame for frame in frames)
    argv = [sys.executable, *wire.ARGV[1:]]
    return subprocess.run(argv, input=stdin, capture_output=True, check=False, cwd="/")


def test_the_package_runs_and_its_answer_is_facts():
    request = {"do": "probe", "query": resources.query(WANT)}
    done = local(wire.package(), json.dumps(request).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    found = facts.parse(json.loads(done.stdout))
    assert isinstance(found.boot, facts.Boot)
    assert isinstance(found.os, facts.Os)
    assert set(found.files) == set(resources.query(WANT)["files"])


def test_an_upload_that_arrives_damaged_is_an_error():
    sha256 = hashlib.sha256(b"whole").hexdigest()
    request = json.dumps({"do": "put", "sha256": sha256}).encode()
    done = local(wire.package(), request, b"who")
    with pytest.raises(ProvisionError, match=f"h: upload {sha256} arrived damaged"):
        wire.put(Says(done.stdout.decode()), sha256, b"whole")


@pytest.mark.parametrize("text", ["Welcome to h!", "", 'Welcome\n{"schema":1}', '{"schema":'])
def test_an_answer_that_is_no_json(text):
    with pytest.raises(ProvisionError, match="instead of JSON") as caught:
        wire.probe(Says(text), {})
    assert "login script" in caught.value.hint


@pytest.mark.parametrize("text", ["5", "null", "[]", '"x"'])
def test_an_answer_that_is_no_mapping(text):
    with pytest.raises(ProvisionError, match="expected a JSON mapping"):
        wire.probe(Says(text), {})


@pytest.mark.parametrize(
    "before", [b"secret\n", b"\n", b"two\nlines\n", b"not firstlight\n", b"\xff\x00\n"]
)
def test_a_password_that_sudo_did_not_ask_for_is_passed_over(before):
    request = json.dumps({"do": "put", "sha256": "0" * 64}).encode()
    done = local(wire.package(), request, b"x", before=before)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["reason"] == f"upload {'0' * 64} arrived damaged"


def test_the_answer_does_not_repeat_what_stood_before_the_mark():
    request = json.dumps({"do": "put", "sha256": "0" * 64}).encode()
    done = local(wire.package(), request, b"x", before=b"secret\n")
    assert b"secret" not in done.stdout + done.stderr


def test_a_probe_that_is_asked_as_root_says_so():
    asked = []

    class Host(Says):
        def run(self, argv, stdin, *, deadline, root=False):
            asked.append((argv, root))
            return super().run(argv, stdin, deadline=deadline)

    wire.probe(Host("{}"), {})
    assert asked == [(wire.ARGV, True)]


@pytest.mark.parametrize(
    ("err", "what", "hint"),
    [
        ("sh: 1: python3: not found", "python3: not found", "the host needs python3"),
        ("sudo: a password is required", "a password is required", "sudo without a password"),
        ("Traceback\n  File x\nKeyError: 'do'\n", "KeyError: 'do'", ""),
        ("", "no message", ""),
    ],
)
def test_a_command_that_fails_gives_its_last_words_and_a_hint(err, what, hint):
    with pytest.raises(ProvisionError) as caught:
        wire.probe(Says(code=127, err=err), {})
    assert caught.value.what.startswith("h: the probe failed: ")
    assert caught.value.what.endswith(what)
    assert hint in caught.value.hint


def test_an_error_event_of_the_host_is_an_error_here():
    with pytest.raises(ProvisionError, match="h: systemd-run exits 1"):
        list(wire.apply(Says('{"event":"error","reason":"systemd-run exits 1"}'), {}))


def test_a_followed_run_s_lines_are_events():
    events = [{"event": "following", "run": "r", "lines": 0}, {"event": "lost", "run": "r"}]
    host = Recorded("h", [('"do": "follow", "run": "r"', [json.dumps(e) for e in events])])
    assert list(wire.follow(host, "r")) == events


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ({}, {"events": 0, "lines": 0}),
        ({"events": 3, "lines": 7}, {"events": 3, "lines": 7}),
        ({"lines": None}, {"events": 0, "lines": None}),
    ],
)
def test_a_host_is_told_what_is_known_of_the_run_to_follow(known, asked):
    host = Says('{"event":"following","run":"r","lines":0}')
    list(wire.follow(host, "r", **known))
    assert json.loads(frames(host.stdin)[1]) == {"do": "follow", "run": "r", **asked}


def test_a_host_is_asked_which_files_it_lacks():
    host = Says('{"lacking":["b"]}')
    assert wire.lacking(host, ["a", "b"]) == ["b"]
    assert json.loads(frames(host.stdin)[1]) == {"do": "lacking", "sha256s": ["a", "b"]}


@pytest.mark.parametrize("answer", [True, False])
def test_whether_a_run_was_asked_to_stop(answer):
    host = Says(json.dumps({"cancelled": answer}))
    assert wire.cancel(host, "r", "me@here") is answer
    assert json.loads(frames(host.stdin)[1]) == {"do": "cancel", "run": "r", "by": "me@here"}


def test_the_latest_runs_of_a_host_s_journal():
    now = {"running": None, "boot": "b"}
    host = Says(json.dumps({"events": [{"event": "start", "run": "r"}, 5], **now}))
    assert wire.history(host, 20) == {"events": [{"event": "start", "run": "r"}], **now}
    assert json.loads(frames(host.stdin)[1]) == {"do": "history", "runs": 20}


@pytest.fixture
def answers(places, monkeypatch, capsys):
    """What a host whose journal has one run, which goes on, answers to a request."""
    monkeypatch.setattr(entry.os, "_exit", lambda code: None)
    journal.append("r1", "start", who="me@here")
    holder = lock.take_lock()
    places.ACTIVE.write_text(json.dumps({"run": "r1", "pid": os.getpid()}))

    def ask(**request):
        text = json.dumps(request).encode()
        entry.main(io.BytesIO(len(text).to_bytes(8, "big") + text), b"")
        return json.loads(capsys.readouterr().out)

    yield ask
    holder.close()


def test_a_host_answers_whether_its_run_was_asked_to_stop(answers, places):
    assert answers(do="cancel", run="r0", by="them@there") == {"cancelled": False}
    assert answers(do="cancel", run="r1", by="them@there") == {"cancelled": True}
    assert json.loads(places.CANCEL.read_text()) == {"run": "r1", "by": "them@there"}


def test_a_host_answers_with_its_journal(answers):
    said = answers(do="history", runs=5)
    (event,) = said["events"]
    assert (event["run"], event["event"], event["who"]) == ("r1", "start", "me@here")
    assert said["running"] == "r1"
    assert said["boot"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_host_answers_which_files_were_not_uploaded(answers, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "BLOBS", tmp_path)
    (tmp_path / "a").touch()
    assert answers(do="lacking", sha256s=["a", "b"]) == {"lacking": ["b"]}


def test_a_host_follows_from_what_is_known(answers, monkeypatch):
    monkeypatch.setattr(apply, "follow", lambda run, say, **known: say({"run": run, **known}))
    said = answers(do="follow", run="r1", events=2, lines=None)
    assert said == {"run": "r1", "events": 2, "lines": None}


WRONG_EVENTS = {
    "no event": ({"run": "r"}, "event: expected one of following, start, "),
    "an event that is a list": ({"event": ["end"]}, "got ['end']"),
    "one that nobody knows": ({"event": "dance"}, "got 'dance'"),
    "an end that says nothing": (
        {"event": "end", "run": "r"},
        "end.result: expected str, got",
    ),
    "an end without its run": (
        {"event": "end", "result": "done", "reboot": False},
        "end.run: expected",
    ),
    "a change without its name": ({"event": "change"}, "change.id: expected str, got None"),
    "a duration in words": (
        {"event": "done", "id": "a", "seconds": "long"},
        "done.seconds: expected float, got 'long'",
    ),
    "a failure without a reason": ({"event": "failed", "id": "a", "log": []}, "failed.reason: "),
    "a log that is no list": (
        {"event": "failed", "id": "a", "reason": "r", "log": "l"},
        "failed.log: expected list, got 'l'",
    ),
    "output that is a number": ({"event": "output", "line": 5}, "output.line: expected str, got 5"),
    "a run that is a path": (
        {"event": "start", "run": "../../etc/shadow"},
        "start.run: expected the name of a run",
    ),
    "a run that is a number": ({"event": "start", "run": 1}, "start.run: expected str, got 1"),
    "a reason that is a mapping": ({"event": "alive", "reason": {}}, "alive.reason: expected str"),
}


@pytest.mark.parametrize("case", WRONG_EVENTS, ids=WRONG_EVENTS)
def test_an_event_of_another_shape_is_one_error(case):
    event, what = WRONG_EVENTS[case]
    with pytest.raises(ProvisionError, match="h: what it says of its run") as caught:
        list(wire.follow(Says(json.dumps(event)), "r"))
    assert what in caught.value.what
    assert "/var/log/firstlight" in caught.value.hint


def test_a_duration_may_be_whole_seconds():
    assert len(list(wire.follow(Says('{"event": "done", "id": "a", "seconds": 1}'), "r"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a": ' * 21 + "{}" + "}" * 21, id="deep"),
        pytest.param("[" * 100_000, id="very deep"),
        pytest.param('{"a": 1e999}', id="infinite"),
        pytest.param('{"a": NaN}', id="not a number"),
        pytest.param('{"a": -9223372036854775808}', id="too long by one"),
        pytest.param('{"a": 1' + "0" * 5000 + "}", id="very long"),
    ],
)
def test_an_answer_that_no_host_gives_is_refused(text):
    with pytest.raises(ProvisionError, match="instead of JSON"):
        wire.probe(Says(text), {})


def test_a_name_that_is_no_utf_8_on_the_host_can_be_written_here():
    answer = wire.probe(Says(r'{"a\udc80": ["b\udc80", "\ud83d\ude00"]}'), {})
    assert answer == {"a?": ["b?", "\N{GRINNING FACE}"]}


def test_an_error_without_a_reason_is_an_error():
    with pytest.raises(ProvisionError, match="h: failed and gave no reason"):
        wire.probe(Says('{"event":"error"}'), {})


def test_apt_is_asked_about_each_transaction_s_words():
    host = Says("{}")
    wire.simulate(host, [("apt-get", "install", "a=1"), ("apt-get", "install", "b")])
    assert json.loads(frames(host.stdin)[1]) == {
        "do": "simulate",
        "transactions": [["apt-get", "install", "a=1"], ["apt-get", "install", "b"]],
    }


def test_a_large_file_comes_in_parts_that_fit_into_answers(login, tmp_path):
    """As over any login, whose answers have a limit."""
    ssh = login()
    content = os.urandom(LIMIT + 5)
    (tmp_path / "wheel").write_bytes(content)
    asked = []

    class Host:
        host = "h"

        def run(self, argv, stdin, *, deadline, root):
            asked.append(argv)
            said = subprocess.run(argv, input=stdin, capture_output=True, check=True)
            return ssh.run(("cat",), said.stdout, deadline=deadline)

    assert wire.get(Host(), str(tmp_path / "wheel")) == content
    assert len(asked) == 3
