"""Runs that were killed leave nothing for long; a restart can be stopped up to its last moment."""

import json
from types import SimpleNamespace

import pytest

from provision.remote import journal, lock, paths, runner


@pytest.fixture
def host(tmp_path, monkeypatch):
    """The tool's places on a host, moved under a folder."""
    places = SimpleNamespace(
        RUN=tmp_path / "run",
        LOCK=tmp_path / "run" / "lock",
        ACTIVE=tmp_path / "run" / "active.json",
        CANCEL=tmp_path / "run" / "cancel.json",
        LOG=tmp_path / "log",
        JOURNAL=tmp_path / "log" / "journal.jsonl",
    )
    for module in (paths, journal, lock, runner):
        for name, path in vars(places).items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, path)
    monkeypatch.setattr(runner.os, "sync", lambda: None)
    return places


def carry_out(host, actions, after=None):
    """A round with one change, `a`; its events as the journal has them."""
    folder = host.RUN / "mine"
    folder.mkdir(parents=True)
    order = {
        "run": "mine",
        "who": "me@here",
        "after": after,
        "fingerprint": "f",
        "changes": [{"id": "a", "actions": actions}],
        "allowed": {"install": {}, "remove": {}},
        "feeds": [],
    }
    (folder / "round.json").write_text(json.dumps(order))
    runner.main(str(folder))
    return list(journal.Tail("mine").new())


def test_the_next_run_takes_away_what_a_killed_one_left(host):
    journal.append("killed", "start")
    for name in ("killed", "waits"):  # which has not begun yet: it waits for the lock
        (host.RUN / name).mkdir(parents=True)
    carry_out(host, [], after="killed")
    assert sorted(path.name for path in host.RUN.iterdir()) == ["lock", "waits"]


def test_a_restart_is_stopped_while_services_are(host, monkeypatch):
    asked = json.dumps({"run": "mine", "by": "you@there"})
    stop = {
        "do": "run",
        "argv": ["sh", "-c", f"echo '{asked}' > {host.CANCEL}"],
        "timeout": 10.0,
        "env": {},
        "accepts": [0],
    }
    really_run = runner.subprocess.run

    def run(argv, **options):
        assert argv[0] != "systemctl", "it restarts"
        return really_run(argv, **options)

    monkeypatch.setattr(runner.subprocess, "run", run)
    events = carry_out(host, [stop, {"do": "reboot"}])
    assert [event["event"] for event in events] == ["start", "change", "cancelled", "end"]
    assert (events[2]["by"], events[2]["before"]) == ("you@there", "a")
    assert (events[3]["result"], events[3]["reboot"]) == ("cancelled", False)
    assert not host.CANCEL.exists()
