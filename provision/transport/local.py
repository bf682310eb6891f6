"""This computer itself, without SSH."""

from __future__ import annotations

import os
import selectors
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

from provision.errors import ProvisionError, TransportError
from provision.transport import Cost, Result, lines, text

CHUNK = 1 << 16


class Local:
    """A transport that starts processes; sessions cost nothing, and none are counted."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.cost = Cost()

    def begin(self) -> None:
        """See Transport: there is nothing to connect."""

    def run(
        self, argv: Sequence[str], stdin: bytes, *, deadline: float, root: bool = False
    ) -> Result:
        """See Transport."""
        self.cost.execs += 1
        try:
            done = subprocess.run(
                _as_root(argv) if root else argv,
                input=stdin,
                capture_output=True,
                timeout=deadline,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TransportError(f"{self.host}: no answer within {deadline:g} s") from error
        except OSError as error:
            raise TransportError(f"{self.host}: {error}") from error
        return Result(exit=done.returncode, out=text(done.stdout), err=text(done.stderr))

    def follow(self, argv: Sequence[str], stdin: bytes, *, silence: float) -> Iterator[str]:
        """See Transport."""
        self.cost.execs += 1
        with self._start(_as_root(argv), stdin) as process:
            assert process.stdout is not None  # noqa: S101 - asked for in _start
            try:
                yield from lines(self.host, self._chunks(process.stdout, silence))
            except ProvisionError:
                process.kill()
                raise
        if process.returncode:
            raise TransportError(f"{self.host}: the follower exits {process.returncode}")

    def close(self) -> None:
        """See Transport."""

    def _chunks(self, stream: IO[bytes], silence: float) -> Iterator[bytes]:
        with selectors.DefaultSelector() as ready:
            ready.register(stream, selectors.EVENT_READ)
            while ready.select(silence):
                if not (chunk := os.read(stream.fileno(), CHUNK)):
                    return
                yield chunk
        raise TransportError(f"{self.host}: silent for {silence:g} s")

    def _start(self, argv: Sequence[str], stdin: bytes) -> subprocess.Popen[bytes]:
        """With its input in a file, since a command may leave a pipe unread, and break it."""
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            try:
                return subprocess.Popen(argv, stdin=file, stdout=subprocess.PIPE)
            except OSError as error:
                raise TransportError(f"{self.host}: {error}") from error


def _as_root(argv: Sequence[str]) -> list[str]:
    return list(argv) if os.geteuid() == 0 else ["/usr/bin/sudo", "-n", "--", *argv]
