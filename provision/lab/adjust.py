"""What a test changes in a running lab host, from outside: no SSH session is spent on it."""

from __future__ import annotations

import shutil
from pathlib import Path

from provision.lab import archive, flavours, furnish, repository
from provision.lab.hardware import Hardware
from provision.lab.processes import leader
from provision.lab.record import Record
from provision.lab.store import LabError, run

DROP_IN = "etc/ssh/sshd_config.d/00-variant.conf"


def sshd_sessions(name: str) -> int:
    """How many SSH logins the host has accepted since it was made fresh; asking adds none."""
    record = _running(name)
    journal = ["journalctl", "--directory=/var/log/journal", "--quiet", "--output=cat"]
    tags = ["--identifier=sshd", "--identifier=sshd-session"]
    log = run(["chroot", record.root, *journal, *tags], what=f"reading the log of {name}")
    return log.count("Accepted publickey")


def configure_sshd(name: str, text: str) -> None:
    """Begin sshd afresh with these lines before its own configuration; '' takes them back.

    Sessions that are open stay. Lines that sshd refuses raise LabError and change nothing.
    """
    record = _running(name)
    drop_in = record.root / DROP_IN
    before = drop_in.read_text(encoding="utf-8") if drop_in.exists() else None
    _put(drop_in, text or None)
    try:
        _inside(record, "sshd", "-t")
    except LabError:
        _put(drop_in, before)
        raise
    _restart_sshd(record)


def rekey(name: str) -> str:
    """Give a host another host key and tell nobody; returns its public part.

    One that is between two boots comes back with it. Its `ssh_config` still expects the old key,
    as it should; only `fresh` makes that right again.
    """
    record = _running(name)
    public = furnish.make_host_key(record.root, name)
    if leader(record.supervisor):
        _restart_sshd(record)
    return public


def add_archive(name: str) -> None:
    """Make the distribution's own (simulated) archive a source of a host, with its key."""
    record = _running(name)
    keyring = f"usr/share/keyrings/{archive.KEYRING}"
    served = record.folder / "repository/archive" / archive.KEYRING
    shutil.copyfile(served, record.root / keyring)
    source = record.root / "etc/apt/sources.list.d/lab-archive.sources"
    source.write_text(
        f"Types: deb\nURIs: {repository.archive_url(record.distribution)}\nSuites: ./\n"
        f"Signed-By: /{keyring}\n",
        encoding="utf-8",
    )


def rebuild(name: str, machine: Hardware) -> None:
    """Make a running host of other hardware.

    Its tools tell of that at once; the bus and its bridges are as they were until it reboots.
    """
    record = _running(name)
    furnish.describe(record.root, flavours.dressed(machine, record.distribution))


def _running(name: str) -> Record:
    record = Record.find(name)
    if record is None or not record.running:
        raise LabError(f"lab host {name} isn't running", hint="bring it up first")
    return record


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(text, encoding="utf-8")


def _restart_sshd(record: Record) -> None:
    """Not a reload: this returns when sshd listens, and forgets the penalties it kept."""
    _inside(record, "systemctl", "reset-failed", "ssh.service")  # no limit on how often
    _inside(record, "systemctl", "restart", "ssh.service")


def _inside(record: Record, *argv: str) -> None:
    first = leader(record.supervisor)
    if first is None:
        raise LabError(f"lab host {record.name} is between two boots", hint="wait for its answer")
    enter = ["nsenter", f"--target={first}", "--mount", "--uts", "--ipc", "--pid", "--root"]
    run([*enter, "--", *argv], what=f"{argv[0]} in lab host {record.name}")
