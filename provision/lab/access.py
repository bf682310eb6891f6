"""The way into a lab host: its OpenSSH client configuration, and waiting for its answer."""

from __future__ import annotations

import subprocess

from provision.lab import furnish
from provision.lab.record import Record
from provision.lab.store import LabError, poll, write_whole

BOOT_SECONDS = 60.0


def write_config(record: Record) -> None:
    """Write `ssh_config` and `known_hosts`: the host key is known, so checking stays strict."""
    known = record.folder / "known_hosts"
    write_whole(known, f"[127.0.0.1]:{record.port} {record.host_key}\n")
    lines = {
        "HostName": "127.0.0.1",
        "Port": record.port,
        "User": "root",
        "IdentityFile": furnish.client_key(),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": known,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
    }
    body = "".join(f"    {key} {value}\n" for key, value in lines.items())
    write_whole(record.folder / "ssh_config", f"Host {record.name}\n{body}")


def await_answer(record: Record) -> None:
    """Wait for an authenticated answer; bare connects would earn sshd's penalties."""
    config = record.folder / "ssh_config"
    argv = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", record.name]

    def settled() -> bool:
        done = subprocess.run(
            [*argv, "true"], check=False, capture_output=True, stdin=subprocess.DEVNULL
        )
        return done.returncode == 0 or not record.running

    answered = poll(BOOT_SECONDS, settled)
    if not (answered and record.running):
        console = record.folder / "console"
        tail = "\n".join(console.read_text(errors="replace", encoding="utf-8").splitlines()[-8:])
        raise LabError(
            f"lab host {record.name} did not come up in {BOOT_SECONDS:.0f} s:\n{tail}",
            hint=f"its console is {console}",
        )
