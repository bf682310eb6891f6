"""Stands in the compiler's place: waits until the build lets it in, then runs the real nvcc.

ninja starts one of these per unit. Which of them may run is decided by the build alone, at the
other end of a socket that the kernel closes when either side dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, cast

SOCKET = "FIRSTLIGHT_GATE"
"""Environment variable that names the build's socket."""
COMPILER = "FIRSTLIGHT_NVCC"
"""Environment variable that names the real nvcc."""
SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")
FIRST_TO_DIE = 800
"""oom_score_adj: where memory runs out all the same, a compiler is killed and nothing else."""
PR_SET_PDEATHSIG = 1
KILLED = re.compile(
    rb"died due to signal 9|Killed signal terminated program|^Killed$", re.MULTILINE
)
"""What nvcc, gcc and the shell say of a compiler that the kernel killed."""
KILLED_STATUS = (-signal.SIGKILL, 128 + signal.SIGKILL)
TAIL = 65536
"""Bytes of a compiler's error output that are looked through."""


def main(argv: list[str]) -> int:
    """Compile one unit, as often as the build wants it; the exit status."""
    nvcc = os.environ[COMPILER]
    path = os.environ.get(SOCKET)
    unit = source(argv)
    if not path or unit is None:  # linking, --version
        os.execv(nvcc, [nvcc, *argv])  # noqa: S606 - an argument vector
    with socket.socket(socket.AF_UNIX) as peer:
        try:
            peer.connect(path)
        except OSError as error:
            sys.stderr.write(f"{path}: {error}: the build that this compiler belongs to is over\n")
            return 1
        words = cast("IO[bytes]", peer.makefile("rwb"))
        _say(words, {"unit": unit, "object": target(argv), "argv": argv, "cwd": str(Path.cwd())})
        while True:
            match _hear(words):
                case {"do": "compile"}:
                    _say(words, _compile([nvcc, *argv], peer, words))
                case {"do": "done", "exit": int(status)}:
                    return status
                case _:
                    return 1


def source(argv: list[str]) -> str | None:
    """The file that is compiled, None where nothing is."""
    if "-c" not in argv and "--compile" not in argv:
        return None
    return next((word for word in argv if word.endswith(SOURCES)), None)


def target(argv: list[str]) -> str | None:
    """The object that is made."""
    return argv[argv.index("-o") + 1] if "-o" in argv[:-1] else None


def _compile(command: list[str], peer: socket.socket, words: IO[bytes]) -> dict[str, object]:
    """Run the compiler in a session of its own, and tell which: the build may stop or kill it."""
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_first_to_die
    )
    _say(words, {"session": process.pid})
    assert process.stderr  # noqa: S101 - piped
    said = bytearray()

    def relay(pipe: IO[bytes]) -> None:
        while chunk := os.read(pipe.fileno(), 4096):
            sys.stderr.buffer.write(chunk)
            sys.stderr.flush()
            said.extend(chunk)
            del said[:-TAIL]

    def watch() -> None:
        """Nothing is said to a gate while it compiles: what can be read is the build's end."""
        select.select([peer], [], [])
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    reader = threading.Thread(target=relay, args=(process.stderr,))
    reader.start()
    threading.Thread(target=watch, daemon=True).start()
    _, status, used = os.wait4(process.pid, 0)
    reader.join(5.0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    return {
        "exit": code if code >= 0 else 128 - code,
        "killed": code in KILLED_STATUS or (code != 0 and bool(KILLED.search(said))),
        "cpu": round(used.ru_utime + used.ru_stime, 2),
        "largest": used.ru_maxrss * 1024,
    }


def _first_to_die() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    Path("/proc/self/oom_score_adj").write_text(str(FIRST_TO_DIE), encoding="utf-8")


def _say(words: IO[bytes], message: dict[str, object]) -> None:
    words.write(json.dumps(message).encode() + b"\n")
    words.flush()


def _hear(words: IO[bytes]) -> object:
    """The build's next word, None when it is gone."""
    try:
        line = words.readline()
    except OSError:
        return None
    return json.loads(line) if line else None
