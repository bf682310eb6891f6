"""Carries out a round, detached from whoever asked, under a lock that the kernel releases."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from provision.remote import journal
from provision.remote.actions import ActionFailed, Context, carry_out
from provision.remote.command import ENV
from provision.remote.paths import ACTIVE, LOCK, LOG, RUN, private, replace

LOCK_PATIENCE = 5.0
"""Seconds to wait for the lock: a probe holds it for an instant while it looks."""
EXCERPT = 20
"""Lines of the log that go into the journal when a change fails."""


def main(folder: str) -> None:
    """Carry out the round in `folder`/round.json."""
    order = json.loads((Path(folder) / "round.json").read_text())
    run = order["run"]
    lock = take_lock(LOCK_PATIENCE)
    if lock is None or journal.last_run() != order["after"]:
        # Planned before another run changed the host: it must be planned anew.
        shutil.rmtree(folder, ignore_errors=True)
        journal.append(run, "end", ok=False, reboot=False, stale=True)
        return
    active = {"run": run, "who": order["who"], "since": time.time(), "pid": os.getpid()}
    replace(ACTIVE, json.dumps(active).encode(), 0o600)
    journal.append(
        run,
        "start",
        who=order["who"],
        fingerprint=order["fingerprint"],
        changes=[change["id"] for change in order["changes"]],
    )
    ok = _changes(run, order, folder)
    reboots = ok and any(a["do"] == "reboot" for c in order["changes"] for a in c["actions"])
    shutil.rmtree(folder, ignore_errors=True)
    ACTIVE.unlink(missing_ok=True)
    journal.append(run, "end", ok=ok, reboot=reboots)
    if reboots:
        os.sync()
        subprocess.run(["systemctl", "reboot"], env=ENV, check=False)


def _changes(run: str, order: Mapping[str, Any], folder: str) -> bool:
    """All changes in order, up to the first that fails."""
    private(LOG)
    with open(log_path(run), "ab", opener=_secret) as log:
        context = Context(
            folder=Path(folder),
            log=log,
            allowed=order["allowed"],
            waiting=lambda reason: journal.append(run, "waiting", reason=reason),
        )
        return all(_change(run, change, context) for change in order["changes"])


def log_path(run: str) -> Path:
    """Where the output of a run's commands goes."""
    return LOG / f"{run}.log"


def take_lock(patience: float) -> BinaryIO | None:
    """The host's one lock, held until the file is closed or the process dies.

    None when another process still holds it after `patience` seconds.
    """
    private(RUN)
    file = open(LOCK, "wb", opener=_secret)  # noqa: SIM115 - held open on purpose
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A probe holds it for an instant; a run, which says so, holds it for long.
            if ACTIVE.exists() or time.monotonic() > end:
                file.close()
                return None
            time.sleep(0.05)
        else:
            return file


def held() -> bool:
    """Whether a run holds the host's lock; those who look share the lock for an instant."""
    if not LOCK.exists():
        return False
    with LOCK.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _change(run: str, change: Mapping[str, Any], context: Context) -> bool:
    journal.append(run, "change", id=change["id"])
    start = time.monotonic()
    at = context.log.tell()
    try:
        for action in change["actions"]:
            if action["do"] != "reboot":
                carry_out(action, context)
    except Exception as error:  # noqa: BLE001 - whatever happened belongs into the journal
        reason = (
            str(error) if isinstance(error, ActionFailed) else f"{type(error).__name__}: {error}"
        )
        hint = error.hint if isinstance(error, ActionFailed) else ""
        log = log_path(run).read_bytes()[at:].decode("utf-8", "replace").rstrip("\n").split("\n")
        # dpkg writes its progress over and over into one line.
        excerpt = [line.rpartition("\r")[2] for line in log[-EXCERPT:]]
        journal.append(run, "failed", id=change["id"], reason=reason, hint=hint, log=excerpt)
        return False
    journal.append(run, "done", id=change["id"], seconds=round(time.monotonic() - start, 2))
    return True


def _secret(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


if __name__ == "__main__":
    main(sys.argv[1])
