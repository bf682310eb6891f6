"""The only room that touches a network: runs commands on hosts, and counts what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from provision.errors import ProvisionError

LIMIT = 16 << 20
"""Bytes of one answer, or of one line of a followed command: a hundred times the longest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a command said."""

    exit: int
    out: str
    err: str


@dataclass(kw_only=True)
class Cost:
    """What a host was charged: SSH sessions (logins) and commands."""

    sessions: int = 0
    execs: int = 0


class Transport(Protocol):
    """A way to run commands on one host."""

    host: str
    cost: Cost

    def begin(self) -> None:
        """Start to connect, and come back at once; the first command waits for it."""

    def run(
        self, argv: Sequence[str], stdin: bytes, *, deadline: float, root: bool = False
    ) -> Result:
        """Run a command; give up after `deadline` seconds. Raises TransportError.

        Before its input a command run as root may find a line that sudo did not ask for.
        """

    def follow(self, argv: Sequence[str], stdin: bytes, *, silence: float) -> Iterator[str]:
        """A root command's lines as they come.

        Raises TransportError after `silence` seconds without one, and when the connection breaks.
        """

    def close(self) -> None:
        """Leave the host; the next command connects again."""


def lines(host: str, chunks: Iterable[bytes]) -> Iterator[str]:
    """Whole lines, as they come. Raises ProvisionError for one that does not end."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from map(text, whole)
        if len(rest) > LIMIT:
            raise endless(host)


def endless(host: str) -> ProvisionError:
    """Of a host that would fill this computer's memory; asking again would change nothing."""
    return ProvisionError(
        f"{host}: answers with more than {LIMIT >> 20} MiB",
        hint="what runs there is not ours: log in by hand and see what it prints",
    )


def text(data: bytes | bytearray) -> str:
    """Output as text; a byte that can't be read must not kill the reader."""
    return data.decode("utf-8", "replace")
