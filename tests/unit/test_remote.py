"""What runs on hosts, in a folder of its own: apt's words, the journal, actions, the runner."""

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from provision.remote import actions, apply, apt, journal, paths, record, runner
from provision.remote.actions import ActionFailed

CAPTURES = Path(__file__).parent / "captures"
KEY = (CAPTURES / "openpgp-ed25519.gpg").read_bytes()
FINGERPRINT = "C6E79DB7394149AD1983FB7923C9F05F556556B7"
"""Of KEY, as gpg printed it."""


@pytest.fixture
def host(tmp_path, monkeypatch):
    """The tool's places on a host, moved under a folder."""
    places = SimpleNamespace(
        RUN=tmp_path / "run",
        LOCK=tmp_path / "run" / "lock",
        ACTIVE=tmp_path / "run" / "active.json",
        LOG=tmp_path / "log",
        JOURNAL=tmp_path / "log" / "journal.jsonl",
        BLOBS=tmp_path / "blobs",
    )
    for module in (paths, actions, apply, journal, runner):
        for name, path in vars(places).items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, path)
    return SimpleNamespace(root=tmp_path, **vars(places))


# --- apt ---------------------------------------------------------------------------------------


def capture(name):
    return (CAPTURES / name).read_text()


def test_apt_tells_installations_upgrades_downgrades_and_removals():
    assert apt.parse(capture("apt-simulate-all-kinds.txt")) == {
        "install": {
            "driver": [None, "590-1"],
            "driver-library": ["550-1", "590-1"],
            "module": ["595-1", "580-1"],
            "toolkit": [None, "13.1-1"],
        },
        "remove": {"driver-legacy": "340-1"},
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Purg old [1.0]", {"install": {}, "remove": {"old": "1.0"}}),
        ("Remv old:i386 [1.0] [a:amd64 ]", {"install": {}, "remove": {"old:i386": "1.0"}}),
        ("Inst a:i386 (1:2.0-1 x [i386])", {"install": {"a:i386": [None, "1:2.0-1"]}, "remove": {}}),
        ("Inst a [1] (2 x [amd64]) [b:amd64 ]", {"install": {"a": ["1", "2"]}, "remove": {}}),
        ("Inst a (2 x:1/stable, y:1 [amd64])", {"install": {"a": [None, "2"]}, "remove": {}}),
        ("Conf a (2 x [amd64])", {"install": {}, "remove": {}}),
        ("  Inst a (2 x [amd64])", {"install": {}, "remove": {}}),
        ("", {"install": {}, "remove": {}}),
    ],
)
def test_a_line_of_apt_s_simulation(line, expected):
    assert apt.parse(line) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            capture("apt-simulate-unmet-dependency.stderr.txt"),
            "Unable to correct problems, you have held broken packages.",
        ),
        ("E: one\nW: two\nE: three\n", "one; three"),
        ("W: only a warning\n", ""),
        ("", ""),
    ],
)
def test_apt_s_refusal_in_one_line(text, expected):
    assert apt.parse_error(text) == expected


ALLOWED = {"install": {"a": [None, "1"], "b": ["1", "2"]}, "remove": {"old": "1"}}


@pytest.mark.parametrize(
    ("install", "remove", "expected"),
    [
        ({"a": [None, "1"], "b": ["1", "2"]}, {"old": "1"}, []),
        ({"a": [None, "1"]}, {}, []),
        ({}, {}, []),
        ({"a": [None, "2"]}, {}, ["installs a 2"]),
        ({"c": [None, "1"]}, {}, ["installs c 1"]),
        ({}, {"a": "1"}, ["removes a 1"]),
        ({"c": [None, "3"]}, {"d": "4"}, ["installs c 3", "removes d 4"]),
    ],
)
def test_what_goes_beyond_the_plan(install, remove, expected):
    assert apt.beyond({"install": install, "remove": remove}, ALLOWED) == expected


# --- RECORD ------------------------------------------------------------------------------------


def digest(content):
    raw = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def site(folder, files, *, hashed=True):
    """A site-packages folder with one distribution, as an installer leaves it."""
    info = folder / "a-1.dist-info"
    info.mkdir(parents=True)
    rows = []
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        rows.append(f"{name},{digest(content)},{len(content)}" if hashed else f"{name},,")
    (info / "RECORD").write_text("\n".join([*rows, "a-1.dist-info/RECORD,,", ""]))
    return folder


FILES = {"a/__init__.py": b"1\n", "a/b.so": b"\x7fELF", "a/with,comma.py": b""}


def test_files_as_recorded(tmp_path):
    quoted = {name: content for name, content in FILES.items() if "," not in name}
    assert record.faults(site(tmp_path, quoted)) == []


def test_a_file_whose_name_is_quoted_in_its_record(tmp_path):
    (tmp_path / "a,b.py").write_bytes(b"x")
    info = tmp_path / "a-1.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(f'"a,b.py",{digest(b"x")},1\n')
    assert record.faults(tmp_path) == []


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda file: file.write_bytes(b"2\n"), ["a.py: not as recorded (sha256)"]),
        (lambda file: file.unlink(), ["a.py: missing"]),
    ],
    ids=["changed", "missing"],
)
def test_a_file_that_is_not_as_recorded(tmp_path, spoil, expected):
    folder = site(tmp_path, {"a.py": b"1\n", "b.py": b"1\n"})
    spoil(folder / "a.py")
    assert record.faults(folder) == expected


def test_an_entry_without_a_hash_is_not_looked_at(tmp_path):
    folder = site(tmp_path, {"a.pyc": b"1"}, hashed=False)
    (folder / "a.pyc").write_bytes(b"2")
    assert record.faults(folder) == []


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


def test_only_root_may_read_the_journal(host):
    journal.append("mine", "start")
    assert oct(host.JOURNAL.stat().st_mode & 0o777) == "0o600"
    assert oct(host.LOG.stat().st_mode & 0o777) == "0o700"


# --- actions -----------------------------------------------------------------------------------


@pytest.fixture
def do(host):
    """Carry out one action; gives the log."""
    host.root.joinpath("folder").mkdir()

    def carry_out(**action):
        with host.root.joinpath("log.txt").open("ab") as log:
            context = actions.Context(
                folder=host.root / "folder", log=log, allowed={"install": {}, "remove": {}}
            )
            actions.carry_out(action, context)
        return host.root.joinpath("log.txt").read_text()

    return carry_out


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_file_is_put_with_its_mode_whatever_the_umask(host, do):
    before = os.umask(0o077)
    try:
        do(do="write", path=str(host.root / "new" / "file"), content="é\n", mode=0o644)
    finally:
        os.umask(before)
    file = host.root / "new" / "file"
    assert (file.read_text(), mode(file)) == ("é\n", 0o644)


def test_a_file_is_replaced_by_a_rename_and_nothing_is_left_beside_it(host, do):
    file = host.root / "folder" / "file"
    file.write_text("old")
    held = file.open()
    do(do="write", path=str(file), content="new", mode=0o600)
    with held:
        assert held.read() == "old"
    assert (file.read_text(), mode(file)) == ("new", 0o600)
    assert list(file.parent.iterdir()) == [file]


def test_a_link_is_switched_by_a_rename(host, do):
    link = host.root / "folder" / "current"
    for target in ("releases/1", "releases/2", "releases/2"):
        do(do="switch", link=str(link), target=target)
        assert str(link.readlink()) == target
    assert list(link.parent.iterdir()) == [link]


def test_a_switch_that_was_interrupted_can_be_done_again(host, do):
    link = host.root / "folder" / "current"
    (host.root / "folder" / ".current.new").symlink_to("half done")
    do(do="switch", link=str(link), target="releases/1")
    assert str(link.readlink()) == "releases/1"


def test_a_command_s_words_and_output_go_to_the_log(do):
    log = do(do="run", argv=["sh", "-c", "echo $GREETING; echo oops >&2"], timeout=10, env={"GREETING": "hi"})
    assert log == "$ sh -c echo $GREETING; echo oops >&2\nhi\noops\n"


@pytest.mark.parametrize(
    ("argv", "timeout", "reason"),
    [
        (["sh", "-c", "exit 7"], 10, "sh exits 7"),
        (["no-such-program"], 10, "there is no no-such-program on this host"),
        (["sleep", "60"], 0.05, "sleep took more than 0.05 s"),
    ],
)
def test_a_command_that_fails(do, argv, timeout, reason):
    with pytest.raises(ActionFailed, match=f"^{reason}$"):
        do(do="run", argv=argv, timeout=timeout, env={})


def test_nothing_that_is_run_can_ask_a_question(do):
    log = do(do="run", argv=["sh", "-c", "cat; echo $DEBIAN_FRONTEND $LC_ALL"], timeout=10, env={})
    assert log.endswith("\nnoninteractive C.UTF-8\n")


def wheel(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_an_executable_out_of_an_uploaded_wheel(host, do):
    content = wheel({"uv.data/scripts/uv": "#!/bin/sh\n"})
    sha256 = hashlib.sha256(content).hexdigest()
    host.BLOBS.mkdir()
    (host.BLOBS / sha256).write_bytes(content)
    file = host.root / "opt" / "uv"
    do(do="unpack", wheel=sha256, member="uv.data/scripts/uv", path=str(file))
    assert (file.read_text(), mode(file)) == ("#!/bin/sh\n", 0o755)


@pytest.mark.parametrize("content", [None, b"", b"another file"])
def test_an_upload_that_is_missing_or_damaged(host, do, content):
    sha256 = hashlib.sha256(wheel({"uv": "x"})).hexdigest()
    if content is not None:
        host.BLOBS.mkdir()
        (host.BLOBS / sha256).write_bytes(content)
    with pytest.raises(ActionFailed, match="is missing or damaged"):
        do(do="unpack", wheel=sha256, member="uv", path=str(host.root / "uv"))
    assert not (host.root / "uv").exists()


def sealed(host, do):
    return do(do="seal", release=str(host.root / "r"), lock="1" * 64, python="3.11.2")


def test_a_release_that_is_as_recorded_gets_its_manifest(host, do):
    site(host.root / "r/lib/python3.11/site-packages", {"a.py": b"1\n"})
    sealed(host, do)
    manifest = host.root / "r" / paths.MANIFEST
    assert json.loads(manifest.read_text()) == {"lock": "1" * 64, "python": "3.11.2"}


def test_a_release_that_is_not_as_recorded_stays_without_a_manifest(host, do):
    files = {f"{name}.py": b"1\n" for name in "abcde"}
    folder = site(host.root / "r/lib/python3.11/site-packages", files)
    for name in files:
        (folder / name).unlink()
    with pytest.raises(ActionFailed, match=r"RECORD: a\.py: missing, .*c\.py: missing and 2 more$"):
        sealed(host, do)
    assert not (host.root / "r" / paths.MANIFEST).exists()


@pytest.mark.parametrize("pythons", [[], ["python3.11", "python3.12"]])
def test_a_release_with_another_number_of_site_packages_than_one(host, do, pythons):
    for python in pythons:
        (host.root / "r/lib" / python / "site-packages").mkdir(parents=True)
    with pytest.raises(ActionFailed, match=f"has {len(pythons)} site-packages folders"):
        sealed(host, do)


# --- the key package ---------------------------------------------------------------------------


def tar(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def deb(files):
    """A Debian package: an ar archive of three members, deb(5)."""
    control = b"Package: keyring\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": tar({"./control": control}),
        "data.tar.gz": tar(files),
    }
    parts = [b"!<arch>\n"]
    for name, content in members.items():
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        parts += [head, content, b"\n" if len(content) % 2 else b""]
    return b"".join(parts)


needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
KEY_FILE = "./usr/share/keyrings/archive.gpg"


def keyring(host, do, content, **fields):
    file = host.root / "keyring.deb"
    file.write_bytes(content)
    action = {"url": file.as_uri(), "sha256": None, "fingerprint": FINGERPRINT, **fields}
    return do(do="keyring", **action)


@pytest.fixture
def installed(monkeypatch):
    """The commands that would have been run."""
    commands = []
    monkeypatch.setattr(
        actions.Context, "run", lambda self, argv, *, timeout, env: commands.append(argv)
    )
    return commands


@needs_dpkg
def test_a_key_package_with_the_one_key_is_installed(host, do, installed):
    content = deb({KEY_FILE: KEY, "./etc/apt/sources.list.d/x.list": b""})
    keyring(host, do, content, sha256=hashlib.sha256(content).hexdigest())
    file = host.root / "folder" / "keyring.deb"
    assert installed == [["dpkg", "--install", str(file)]]
    assert file.read_bytes() == content


OTHER_KEY = b"\xc6\x14\x04" + bytes(19)


@needs_dpkg
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "brings keys none, the stack trusts"),
        ({KEY_FILE: OTHER_KEY}, "brings keys [0-9A-F]{40}, the stack trusts"),
        ({KEY_FILE: KEY + OTHER_KEY}, f"brings keys {FINGERPRINT}, [0-9A-F]{{40}}, the stack"),
        ({KEY_FILE: KEY, KEY_FILE + ".old": OTHER_KEY}, f"brings keys {FINGERPRINT}, "),
        ({KEY_FILE: KEY[:-1]}, "archive.gpg: keyring is cut short"),
        ({KEY_FILE: b"<html>"}, "archive.gpg: no OpenPGP packet"),
    ],
    ids=["no key", "another key", "two keys", "two files", "cut short", "no keyring"],
)
def test_a_key_package_with_other_keys_is_not_installed(host, do, installed, files, reason):
    with pytest.raises(ActionFailed, match=reason):
        keyring(host, do, deb(files))
    assert installed == []


@needs_dpkg
def test_a_key_package_with_another_hash_is_not_even_looked_into(host, do, installed):
    with pytest.raises(ActionFailed, match="the stack says " + "0" * 64):
        keyring(host, do, b"rubbish", sha256="0" * 64)
    assert installed == []


@needs_dpkg
def test_a_page_of_a_web_server_is_no_package(host, do, installed):
    with pytest.raises(ActionFailed, match="is no Debian package"):
        keyring(host, do, b"<html>404</html>")
    assert installed == []


def test_a_key_package_that_can_t_be_fetched(host, do, installed):
    url = (host.root / "none.deb").as_uri()
    with pytest.raises(ActionFailed, match=r"none\.deb can't be fetched"):
        do(do="keyring", url=url, sha256=None, fingerprint=FINGERPRINT)
    assert installed == []


# --- the runner --------------------------------------------------------------------------------


def run(script, timeout=10.0):
    return {"do": "run", "argv": ["sh", "-c", script], "timeout": timeout, "env": {}}


def carry_out(host, changes, name="r1"):
    """A whole round by the runner; its events as the journal has them."""
    folder = host.RUN / name
    folder.mkdir(parents=True)
    order = {
        "run": name,
        "who": "me@here",
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
    assert events[-2]["reason"] == "sh exits 3"
    assert events[-2]["log"] == ["$ sh -c echo why; exit 3", "why"]
    assert (events[-1]["ok"], events[-1]["reboot"]) == (False, False)


def test_the_journal_gets_the_last_lines_of_a_failed_change_alone(host):
    lines = "; ".join(f"echo {n}" for n in range(50))
    events = carry_out(
        host,
        [{"id": "a", "actions": [run("echo before")]}, {"id": "b", "actions": [run(f"{lines}; exit 1")]}],
    )
    assert events[-2]["log"] == [str(n) for n in range(30, 50)]


def test_a_fault_of_ours_fails_the_change_too(host):
    events = carry_out(host, [{"id": "a", "actions": [{"do": "dance"}]}])
    assert events[-2]["reason"] == "KeyError: 'dance'"
    assert events[-1]["ok"] is False


def test_a_round_with_a_reboot_ends_before_the_host_restarts(host, monkeypatch):
    asked = []
    monkeypatch.setattr(runner.os, "sync", lambda: None)
    monkeypatch.setattr(
        runner.subprocess, "run", lambda argv, **_: asked.append((argv, words(journal.Tail("r1").new())))
    )
    events = carry_out(host, [{"id": "a", "actions": [{"do": "reboot"}]}])
    assert (events[-1]["ok"], events[-1]["reboot"]) == (True, True)
    assert asked == [(["systemctl", "reboot"], words(events))]


def test_a_round_that_fails_does_not_restart_the_host(host, monkeypatch):
    changes = [{"id": "a", "actions": [{"do": "dance"}]}, {"id": "b", "actions": [{"do": "reboot"}]}]
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
    assert (events[0]["ok"], events[0]["reason"]) == (False, "another run holds this host")
    assert not (host.root / "a").exists()


def test_the_lock_is_free_once_its_holder_is_gone(host):
    first = runner.take_lock(0.0)
    assert runner.take_lock(0.0) is None
    first.close()
    second = runner.take_lock(0.0)
    assert second is not None
    second.close()


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
    monkeypatch.setattr(
        apply.subprocess, "Popen", lambda argv, **options: started.append(argv)
    )
    monkeypatch.setattr(apply, "follow", lambda name, say: say({"event": "following", "run": name}))
    said = []
    apply.apply(b"zip", {"who": "me", "changes": []}, said.append)
    (argv,) = started
    folder = Path(argv[-1])
    assert folder == host.RUN / said[0]["run"]
    assert json.loads((folder / "round.json").read_text())["run"] == folder.name
    assert (folder / "remote.zip").read_bytes() == b"zip"
    assert [mode(folder), mode(folder / "round.json")] == [0o700, 0o600]
