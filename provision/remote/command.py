"""Runs one command on the host: argument vector in, text out, never without a deadline."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENV = {
    "PATH": PATH,
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "HOME": os.environ.get("HOME", "/root"),
}
"""Tools are asked in one language and found in one order, whoever logs in."""


class Missing(Exception):
    """What was asked for is not on this host."""


class Failed(Exception):
    """A command could not say what was asked."""


@dataclass(frozen=True)
class Output:
    """What a command said."""

    exit: int
    out: str
    err: str


def run(argv: Sequence[str], *, timeout: float = 20.0) -> Output:
    """Run a command and return what it said, whatever its exit status.

    Raises Missing when there is no such program, Failed when it outlasts `timeout` seconds.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=ENV,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as error:
        raise Missing(f"no {argv[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{argv[0]} gave no answer within {timeout:g} s") from error
    return Output(
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )


def output(argv: Sequence[str], *, timeout: float = 20.0) -> str:
    """Standard output of a command that must succeed.

    Raises Failed with the command's own last line otherwise.
    """
    done = run(argv, timeout=timeout)
    if done.exit:
        said = (done.err.strip() or done.out.strip()).splitlines()
        raise Failed(f"{argv[0]} exits {done.exit}: {said[-1] if said else 'no message'}")
    return done.out
