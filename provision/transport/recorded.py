"""Answers from a script, in order; anything else is an error. For tests and replays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from provision.transport import Cost, Result


@dataclass
class Recorded:
    """A transport without a host."""

    host: str
    script: list[tuple[str, Any]]
    """What must stand in the command or its input, and the answer: text, or a list of lines.

    An exception is raised; in a list of lines it is raised when its turn comes.
    """
    cost: Cost = field(default_factory=Cost)
    connected: bool = False

    def begin(self) -> None:
        """See Transport: sessions are counted at the first command."""

    def run(
        self,
        argv: Sequence[str],
        stdin: bytes,
        *,
        deadline: float,  # noqa: ARG002
        root: bool = False,  # noqa: ARG002
    ) -> Result:
        """See Transport."""
        answer = self._next(argv, stdin)
        if isinstance(answer, Exception):
            raise answer
        return Result(exit=0, out=answer, err="")

    def follow(
        self,
        argv: Sequence[str],
        stdin: bytes,
        *,
        silence: float,  # noqa: ARG002
    ) -> Iterator[str]:
        """See Transport."""
        answer = self._next(argv, stdin)
        for line in [answer] if isinstance(answer, Exception) else answer:
            if isinstance(line, Exception):
                raise line
            yield line

    def close(self) -> None:
        """See Transport."""
        self.connected = False

    def _next(self, argv: Sequence[str], stdin: bytes) -> Any:  # noqa: ANN401 - as scripted
        self.cost.sessions += not self.connected
        self.connected = True
        self.cost.execs += 1
        if not self.script:
            raise AssertionError(f"{self.host}: nothing more was expected")
        expected, answer = self.script.pop(0)
        if expected.encode() not in " ".join(argv).encode() + stdin:
            raise AssertionError(f"{self.host}: expected a request with {expected!r}")
        return answer
