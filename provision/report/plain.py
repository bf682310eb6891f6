"""What a host says, made fit to be printed: no escapes, no forged lines, no secrets.

A terminal obeys what is printed to it: a host that is not ours any more could move the cursor,
rewrite lines that were shown before, or type into the user's shell.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from provision.errors import ProvisionError
from provision.remote.masked import masked

PICTURES = 0x2400
"""Unicode's block of pictures of the C0 controls, in their order."""


class Screen(Console):
    """The console of everything: whoever forgets to make a text plain can do no harm either."""

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - whatever rich takes
        """Raises ProvisionError where it can't be written; what comes later goes nowhere."""
        try:
            super().print(*objects, **options)
        except OSError as error:
            silence(self.file)
            raise unwritable(error) from error

    def on_broken_pipe(self) -> None:
        """Whoever read it has enough; the work goes on, and ends with its own code."""
        silence(self.file)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                lines = segment.text.split("\n")
                yield Segment("\n".join(map(plain, lines)), segment.style)


def in_utf8(stream: IO[str]) -> None:
    """Whatever the locale says: marks and units can't be written in ASCII, and JSON is UTF-8."""
    if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
        stream.reconfigure(encoding="utf-8")


def silence(stream: IO[str]) -> None:
    """Send the rest of a stream nowhere: what is buffered would fail once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def unwritable(error: OSError) -> ProvisionError:
    """What is told where a disk is full."""
    return ProvisionError(
        f"the output can't be written: {error.strerror}", hint="make room, or send it elsewhere"
    )


def plain(text: str) -> str:
    """One line as it may be printed: what is no character to be seen becomes one, such as ␛.

    Python's `isprintable` is false of every control, of what turns the direction of writing or
    breaks lines, and of surrogates; a tab is as good as a space.
    """
    text = masked(text).replace("\t", " ")
    return text if text.isprintable() else "".join(map(_picture, text))


def plain_json(text: str) -> str:
    """JSON as it may be printed: `json.dumps` itself leaves what comes behind ASCII as it is."""
    return "".join(map(_escape, masked(text)))


def _picture(one: str) -> str:
    if one.isprintable():
        return one
    return chr(PICTURES + ord(one)) if ord(one) < 0x20 else "\N{REPLACEMENT CHARACTER}"


def _escape(one: str) -> str:
    return one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1]
