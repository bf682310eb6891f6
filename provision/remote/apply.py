"""Starts a round so that it outlives the connection, and follows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from provision.remote import journal
from provision.remote.command import ENV, Failed, run
from provision.remote.lock import PATIENCE, held
from provision.remote.paths import RUN, TOOL, private
from provision.remote.runner import log_path

Say = Callable[[Mapping[str, Any]], None]

START_PATIENCE = PATIENCE + 10.0
"""Seconds within which a started run must have written its first event."""
HEARTBEAT = 2.0
"""Seconds of silence after which the follower says that it is alive: whoever listens acts on it,
a request to cancel included."""
POLL = 0.05
WIDTH = 4000
"""Characters of a line of output that is told; the log has it whole."""

RUNNER = """\
import sys
sys.path.insert(0, sys.argv[1] + "/remote.zip")
from provision.remote.runner import main
main(sys.argv[1])
"""


def apply(package: bytes, order: Mapping[str, Any], say: Say) -> None:
    """Hand the round to a process of its own, then follow it.

    Raises Failed when it can't be started.
    """
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid():x}"
    private(RUN)
    folder = private(RUN / name)
    _write(folder / "remote.zip", package)
    _write(folder / "round.json", json.dumps({**order, "run": name}).encode())
    argv = [sys.executable, "-I", "-c", RUNNER, str(folder)]
    if Path("/run/systemd/system").is_dir():
        _as_unit(name, argv)
    else:
        null = subprocess.DEVNULL
        subprocess.Popen(
            argv, stdin=null, stdout=null, stderr=null, env=ENV, start_new_session=True
        )
    follow(name, say)


def follow(name: str, say: Say, *, events: int = 0, lines: int | None = 0) -> None:
    """Say each event of a run and each line of its output until it ends or is found dead.

    The first `events` and `lines` are known already; None: all lines that are there now. How
    many that is, the first word says, for whoever must follow anew.
    """
    journalled = journal.Tail(name)
    output = _Output(log_path(name), lines or 0)
    if lines is None:
        lines = len(output.new())
    started = time.monotonic()
    spoken = started
    say({"event": "following", "run": name, "lines": lines})
    while True:
        alive = held() or time.monotonic() - started < START_PATIENCE
        news = [*output.new(), *journalled.new()]
        for event in news:
            spoken = time.monotonic()
            started = float("-inf") if event["event"] == "start" else started
            if event["event"] != "output" and events > 0:
                events -= 1
            else:
                say(event)
            if event["event"] == "end":
                return
        if not alive and not news:
            say({"event": "lost", "run": name})
            return
        if time.monotonic() - spoken > HEARTBEAT:
            spoken = time.monotonic()
            say({"event": "alive"})
        time.sleep(POLL)


def _as_unit(name: str, argv: list[str]) -> None:
    properties = [f"--property=Description={TOOL} run {name}", "--property=Type=exec"]
    said = run(["systemd-run", "--quiet", "--collect", f"--unit={TOOL}-{name}", *properties, *argv])
    if said.exit:
        raise Failed(f"systemd-run exits {said.exit}: {said.err.strip()}")


def _write(path: Path, content: bytes) -> None:
    with open(path, "xb", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        file.write(content)


class _Output:
    """The lines of a run's log as they are written, but for those that are known already."""

    def __init__(self, path: Path, known: int) -> None:
        self.path = path
        self.offset = 0
        self.known = known

    def new(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        lines = whole.decode("utf-8", "replace").splitlines()
        known, self.known = self.known, max(0, self.known - len(lines))
        return [{"event": "output", "line": line[:WIDTH]} for line in lines[known:]]
