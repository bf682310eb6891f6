"""Runs one command and says what it cost this machine, everything that it started included.

What a command leaves behind (OpenSSH's control masters outlive the tool that made them) comes
to this process, is ended when the command is, and counts. Standard library only: it is run as a
file, so that its own start costs little and is not in the figures.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
"""prctl(2): orphans of our descendants become our children."""
END_SECONDS = 5.0


def main(folder: Path, deadline: float, argv: list[str]) -> None:
    """Run `argv` for at most `deadline` seconds; its output and figures go to `folder`."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    code = 124
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        start = time.monotonic()
        try:
            child = subprocess.Popen(argv, stdin=sys.stdin, stdout=out, stderr=err)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = child.wait(deadline)
        finally:
            wall = time.monotonic() - start
            end_children()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {"code": code, "wall": wall, "cpu": used.ru_utime + used.ru_stime}
    (folder / "figures").write_text(json.dumps(figures))


def end_children() -> None:
    """End and wait for every child, those that come to us meanwhile included."""
    end = time.monotonic() + END_SECONDS
    while there := children():
        late = time.monotonic() > end
        for pid in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(0.01)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def children() -> list[int]:
    """Processes whose parent is this one."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
