"""What several files of tests set up: a host's places, SSH servers, logins, a fake `ssh`."""

import _socket
import dataclasses
import os
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import paramiko
import pytest
from invoke.main import program
from layers import Meet
from samples import WANT
from sshd import Server, new_key

from provision import follow, inventory, wheelhouse
from provision.commands import hosts as commands
from provision.remote import actions, apply, journal, lock, paths, runner
from provision.target import Target
from provision.transport import ssh as ssh_module
from provision.transport import sudo
from provision.transport.address import Address
from provision.transport.recorded import Recorded
from provision.transport.ssh import Ssh
from provision.transport.trust import Trust

ROOT = Path(__file__).parents[2]
INVENTORY = """\
default: a
hosts:
  a: {stack: lab}
  b: {stack: lab}
  c: {stack: lab}
groups:
  all: [a, b, c]
"""


@pytest.fixture
def invoke(monkeypatch, capsys):
    """Calls `invoke` as a user does: its exit code, and what it prints."""

    def call(*argv, inventory=None):
        monkeypatch.chdir(ROOT)
        monkeypatch.delenv("FIRSTLIGHT_INVENTORY", raising=False)
        if inventory:
            monkeypatch.setenv("FIRSTLIGHT_INVENTORY", str(inventory))
        code = 0
        try:
            program.run(["invoke", *argv])
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return call


@pytest.fixture
def entry():
    """Makes a host of the inventory."""

    def make(**fields):
        base = {"name": "h", "where": "inventory.yaml:3", "stack": "lab", "address": "127.0.0.1"}
        return inventory.Host(**{**base, **fields})

    return make


@pytest.fixture
def clock(monkeypatch):
    """Time as those who follow a run know it: it passes while they wait."""
    here = SimpleNamespace(now=0.0)

    def sleep(seconds):
        here.now += seconds

    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: here.now, sleep=sleep))
    return here


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The tool's places on a host, moved under a folder."""
    moved = SimpleNamespace(
        RUN=tmp_path / "run",
        LOCK=tmp_path / "run" / "lock",
        ACTIVE=tmp_path / "run" / "active.json",
        CANCEL=tmp_path / "run" / "cancel.json",
        LOG=tmp_path / "log",
        JOURNAL=tmp_path / "log" / "journal.jsonl",
        BLOBS=tmp_path / "blobs",
        ENVIRONMENTS=tmp_path / "environments",
    )
    for module in (paths, apply, journal, lock, runner):
        for name, path in vars(moved).items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, path)
    monkeypatch.setattr(lock, "PATIENCE", 0.0)  # no probe looks at the lock here
    return SimpleNamespace(root=tmp_path, **vars(moved))


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A folder for a run's private things, and one for uploads."""
    monkeypatch.setattr(actions, "BLOBS", tmp_path / "blobs")
    (tmp_path / "folder").mkdir()
    return SimpleNamespace(root=tmp_path, BLOBS=tmp_path / "blobs")


@pytest.fixture
def do(host):
    """Carry out one action; gives the log."""

    def carry_out(*, feeds=None, **action):
        with host.root.joinpath("log.txt").open("ab") as log:
            context = actions.Context(
                folder=host.root / "folder",
                log=log,
                allowed={"install": {}, "remove": {}},
                feeds=feeds or {},
                waiting=lambda reason: None,
            )
            actions.carry_out(action, context)
        return host.root.joinpath("log.txt").read_text()

    return carry_out


@pytest.fixture
def an_inventory(tmp_path, monkeypatch):
    """Three hosts, of which `a` is the default."""
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    monkeypatch.setenv(inventory.VARIABLE, str(tmp_path / "inventory.yaml"))


@pytest.fixture
def hosts(an_inventory, monkeypatch):
    """Gives each host of the inventory what it will answer."""
    scripts = {}
    wants = []

    def make(host, *, start=None, accept_new=False, compared=True, wheels=None):
        transport = Recorded(host.name, scripts[host.name])
        want = wants[-1] if wheels is None else dataclasses.replace(wants[-1], wheelhouse=wheels)
        return Target(host=host, want=want, transport=transport)

    def set_up(want=WANT, **answers):
        wants.append(want)
        scripts.update({name: [("", one) for one in script] for name, script in answers.items()})

    monkeypatch.setattr(commands, "target", make)
    yield set_up
    assert {name: script for name, script in scripts.items() if script} == {}


@pytest.fixture
def fake_ssh(tmp_path, monkeypatch):
    """Puts a shell script first on the PATH under the name of `ssh`."""

    def make(script):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return make


@pytest.fixture
def agent(monkeypatch):
    """The keys of the user's agent: none, until a test puts some in."""
    keys = []
    monkeypatch.setattr(paramiko, "Agent", lambda: SimpleNamespace(get_keys=lambda: tuple(keys)))
    return keys


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """Name → a key's file and the key."""
    folder = tmp_path_factory.mktemp("keys")
    names = ("host", "user", "other", "gate")
    return {name: (folder / name, new_key(folder / name)) for name in names}


@pytest.fixture
def server(keys):
    server = Server(keys["host"][1], keys["user"][1])
    yield server
    server.stop()


@pytest.fixture
def gate(keys):
    """A second server, to jump through."""
    server = Server(keys["gate"][1], keys["user"][1])
    yield server
    server.stop()


@pytest.fixture
def waits(monkeypatch):
    """The pauses between attempts, none of which is made."""
    made = []
    clock = SimpleNamespace(sleep=made.append, monotonic=time.monotonic)
    monkeypatch.setattr(ssh_module, "time", clock)
    return made


def known_line(name, key):
    """A line of known_hosts."""
    return f"{name} {key.get_name()} {key.get_base64()}\n"


@pytest.fixture
def at_once(monkeypatch):
    """Connections do not hold small packets back, which would take 40 ms for each command."""

    def connect(self, address):
        _socket.socket.connect(self, address)
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    monkeypatch.setattr(socket.socket, "connect", connect, raising=False)


@pytest.fixture
def login(server, keys, tmp_path, agent, entry, at_once, monkeypatch):
    """Makes a login to the server, with what it is told to trust and to offer."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sudo, "_answers", [])
    monkeypatch.delenv(sudo.VARIABLE, raising=False)
    logins = []

    def make(*, known="host", offer="user", trust=None, **fields):
        file = tmp_path / "known_hosts"
        if known:
            file.write_text(known_line(f"[127.0.0.1]:{server.port}", keys[known][1]))
        address = Address(
            hostname="127.0.0.1",
            port=server.port,
            user="root",
            identities=(str(keys[offer][0]),),
            known_hosts=(file, tmp_path / "none"),
        )
        address = dataclasses.replace(address, **fields)
        logins.append(Ssh(entry(), address, trust or Trust()))
        return logins[-1]

    yield make
    server.stop()
    for one in logins:
        one.close()


@pytest.fixture
def meet(tmp_path, request, monkeypatch):
    """The layers that bad inputs meet, where nobody sits at a terminal."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    return Meet(tmp_path, request.getfixturevalue)


@pytest.fixture
def no_wheels(tmp_path, monkeypatch):
    """A wheelhouse without a wheel: its folder is not there yet."""
    folder = tmp_path / "dist"
    monkeypatch.setattr(wheelhouse, "FOLDER", folder)
    for function in (wheelhouse.load, wheelhouse.content):
        monkeypatch.setattr(function, "__defaults__", (folder,))
    return folder
