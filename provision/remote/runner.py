"""Carries out a round, detached from whoever asked, under a lock that the kernel releases."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provision.remote import journal
from provision.remote.actions import ActionFailed, Context, carry_out
from provision.remote.command import ENV
from provision.remote.lock import cancelled, take_lock
from provision.remote.masked import masked
from provision.remote.paths import (
    ACTIVE,
    BLOBS,
    BOOT_ID,
    CANCEL,
    ENVIRONMENTS,
    LOG,
    RUN,
    private,
    replace,
    secret,
)

EXCERPT = 20
"""Lines of the log that go into the journal when a change fails."""
LATER = "what would come next"
"""Before which a run stops that was asked to in its last change: no further round, no restart."""
WIDTH = 500
"""Characters of such a line: progress bars and archives' lists have lines of megabytes."""


def main(folder: str) -> None:
    """Carry out the round in `folder`/round.json."""
    order = json.loads((Path(folder) / "round.json").read_text(encoding="utf-8"))
    run = order["run"]
    lock = take_lock()
    if lock is None or journal.last_run() != order["after"]:
        # Planned before another run changed the host: it must be planned anew.
        shutil.rmtree(folder, ignore_errors=True)
        journal.append(run, "end", result="stale", reboot=False)
        return
    _sweep()
    active = {"run": run, "who": order["who"], "since": time.time(), "pid": os.getpid()}
    replace(ACTIVE, json.dumps(active).encode(), 0o600)
    journal.append(
        run,
        "start",
        who=order["who"],
        boot=BOOT_ID.read_text(encoding="utf-8").strip(),
        fingerprint=order["fingerprint"],
        changes=[change["id"] for change in order["changes"]],
    )
    result = _changes(run, order, folder)
    if result == "done":
        _sweep_uploads()
    reboots = result == "done" and any(
        action["do"] == "reboot" for change in order["changes"] for action in change["actions"]
    )
    shutil.rmtree(folder, ignore_errors=True)
    CANCEL.unlink(missing_ok=True)
    if not reboots:  # until the restart is asked for, the host is not free
        ACTIVE.unlink(missing_ok=True)
    journal.append(run, "end", result=result, reboot=reboots)
    if reboots:
        subprocess.run(["systemctl", "reboot"], env=ENV, check=False)
        ACTIVE.unlink(missing_ok=True)


def _changes(run: str, order: Mapping[str, Any], folder: str) -> str:
    """All changes in order, up to the first that fails or a request to stop; how it ended."""
    private(LOG)
    with open(log_path(run), "ab", opener=secret) as log:
        context = Context(
            folder=Path(folder),
            log=log,
            allowed=order["allowed"],
            feeds=order["feeds"],
            waiting=lambda reason: journal.append(run, "waiting", reason=reason),
        )
        for change in order["changes"]:
            if _stopped(run, change["id"]):
                return "cancelled"
            if (result := _change(run, change, context)) != "done":
                return result
    return "cancelled" if _stopped(run, LATER) else "done"


def _sweep() -> None:
    """Remove what killed runs left behind: the lock is ours, so all that ever started are over."""
    over = set(journal.started())
    for folder in RUN.iterdir():
        if folder.name in over:
            shutil.rmtree(folder, ignore_errors=True)


def _sweep_uploads() -> None:
    """Remove what was uploaded for this round or for feeds that are gone.

    Others that were planned meanwhile are stale: they upload anew what they need. What is being
    uploaded still has another name.
    """
    links = ENVIRONMENTS.glob("*/feed/*/*")
    needed = {link.readlink().name for link in links if link.is_symlink()}
    for blob in BLOBS.glob("[!.]*"):
        if blob.name not in needed:
            blob.unlink()


def _stopped(run: str, before: str) -> bool:
    """Whether somebody asked this run to stop, which the journal then says."""
    if by := cancelled(run):
        journal.append(run, "cancelled", by=by, before=before)
    return by is not None


def log_path(run: str) -> Path:
    """Where the output of a run's commands goes."""
    return LOG / f"{run}.log"


def _change(run: str, change: Mapping[str, Any], context: Context) -> str:
    """Carry out one change; how it ended. What its restart waits for may take minutes: that one
    can still be stopped, and `main` does it when the account is complete.
    """
    journal.append(run, "change", id=change["id"])
    start = time.monotonic()
    at = context.log.tell()
    try:
        for action in change["actions"]:
            if action["do"] != "reboot":
                carry_out(action, context)
            elif _stopped(run, change["id"]):
                return "cancelled"
    except Exception as error:  # noqa: BLE001 - whatever happened belongs into the journal
        if _stopped(run, change["id"]):  # what takes long looks for such a request itself
            return "cancelled"
        reason = (
            str(error) if isinstance(error, ActionFailed) else f"{type(error).__name__}: {error}"
        )
        hint = error.hint if isinstance(error, ActionFailed) else ""
        lines = excerpt(log_path(run).read_bytes()[at:])
        said = {"reason": reason, "hint": hint, "log": lines}
        journal.append(run, "failed", id=change["id"], **said)
        return "failed"
    journal.append(run, "done", id=change["id"], seconds=round(time.monotonic() - start, 2))
    return "done"


def excerpt(log: bytes) -> list[str]:
    """The last lines of a log, without passwords that apt or uv repeat from URLs.

    Of a line that dpkg writes over and over, its progress, the last state.
    """
    lines = log.decode("utf-8", "replace").rstrip("\n").split("\n")[-EXCERPT:]
    return [masked(line.rstrip("\r").rpartition("\r")[2])[:WIDTH] for line in lines]


if __name__ == "__main__":
    main(sys.argv[1])
