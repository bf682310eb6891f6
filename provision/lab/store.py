"""Where the lab keeps its things, and how concurrent commands stay out of each other's way."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from provision import TOOL
from provision.errors import ProvisionError

Say = Callable[[str], None]
SILENCE = 5.0
"""Seconds after which whoever waits for a long command hears of it again."""


class LabError(ProvisionError):
    """The lab host can't be built, started or stopped."""


def lab_dir() -> Path:
    """The lab's folder (mode 0700), made when it is missing."""
    configured = os.environ.get("FIRSTLIGHT_LAB_DIR")
    if configured:
        return private_dir(Path(configured).absolute())
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return private_dir(Path(cache) / TOOL / "lab")


def private_dir(path: Path) -> Path:
    """Make a folder that only its owner can enter. Raises LabError where that can't be."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"{path}: the lab's folder can't be made: {error.strerror}",
            hint="name one that can be written in FIRSTLIGHT_LAB_DIR",
        ) from error
    return path


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock `name` against every other command; the kernel frees it if we die."""
    path = private_dir(lab_dir() / "locks") / name
    with path.open("w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_whole(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file that is either the old one or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(temporary, mode)  # noqa: PTH101 - mkstemp speaks in strings
    Path(temporary).replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, None when there is no such file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if not isinstance(data, dict):
        raise LabError(f"{path} holds no JSON object", hint=f"remove {path.parent}")
    return data


def boot_id() -> str:
    """The machine's boot: process ids of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def poll(deadline: float, ready: Callable[[], bool], *, every: float = 0.05) -> bool:
    """Ask until `ready` holds or `deadline` seconds have passed; says which."""
    end = time.monotonic() + deadline
    while not ready():
        if time.monotonic() >= end:
            return False
        time.sleep(every)
    return True


def run_long(
    argv: Sequence[object], *, what: str, say: Say, env: dict[str, str] | None = None
) -> None:
    """Run a command that takes long, and say every few seconds how far it is.

    What that is is the last line of its output. Its failure becomes a LabError.
    """
    start = time.monotonic()
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", errors="replace") as out:
        output = Path(out.name)
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=env,
        )
        try:
            while process.poll() is None:
                try:
                    process.wait(SILENCE)
                except subprocess.TimeoutExpired:
                    seconds = time.monotonic() - start
                    at = "".join(_tail(output, 1))
                    say(f"lab: {what}, {seconds:.0f} s so far{': ' if at else ''}{at}")
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            tail = "\n".join(_tail(output, 8))
            raise LabError(f"{what} failed (exit {process.returncode}): {tail}")


def _tail(output: Path, lines: int) -> list[str]:
    return output.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-lines:]


def run(argv: Sequence[object], *, what: str, env: dict[str, str] | None = None) -> str:
    """Run a command to its end and return stdout; its failure becomes a LabError."""
    try:
        done = subprocess.run(
            [str(word) for word in argv],
            check=False,
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            env=env,
        )
    except FileNotFoundError as error:
        raise LabError(f"{what} failed: no command {argv[0]}") from error
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise LabError(f"{what} failed (exit {done.returncode}): {tail}")
    return done.stdout
