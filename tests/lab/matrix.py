"""The outcome of every cell and single fault of a session, as a table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "FIRSTLIGHT_FAULTS"
"""Environment variable: the Markdown file whose table the session's outcome replaces."""
WIDTH = 200
"""Characters of what was wrong; the test's own message has it whole."""
BEGIN, END = "<!-- outcome -->\n", "<!-- end of outcome -->\n"


@dataclass
class Cell:
    """One kind of change and one fault, or a single fault by itself."""

    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def text(self) -> str:
        """A mark, or what was wrong, and how long it took."""
        wrong = " ".join("; ".join(self.wrong).split())
        return f"{wrong[:WIDTH] or '✓'} {self.seconds:.0f} s"


CELLS: dict[tuple[str, str], Cell] = {}
"""Kind of change, fault → cell; single faults have no kind."""


@contextmanager
def cell(kind: str, fault: str) -> Iterator[Cell]:
    """Note how a cell ends: what it gathers in `wrong`, or the error that ends it early."""
    one = CELLS[kind, fault] = Cell()
    begin = time.monotonic()
    try:
        yield one
    except BaseException as error:
        one.wrong.append(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise
    finally:
        one.seconds = time.monotonic() - begin


def table() -> list[str]:
    """All cells as Markdown, which is readable as it stands."""
    kinds = list(dict.fromkeys(kind for kind, _ in CELLS if kind))
    faults = list(dict.fromkeys(fault for kind, fault in CELLS if kind))
    lines = []
    if kinds:
        lines += [_row(["", *faults]), _row(["---"] * (len(faults) + 1))]
    for kind in kinds:
        cells = [CELLS.get((kind, fault)) for fault in faults]
        lines.append(_row([kind, *(one.text() if one else "" for one in cells)]))
    singles = {fault: one for (kind, fault), one in CELLS.items() if not kind}
    if singles:
        lines += ["", _row(["single fault", "outcome"]), _row(["---"] * 2)]
    lines += [_row([name, one.text()]) for name, one in singles.items()]
    good = sum(not one.wrong for one in CELLS.values())
    seconds = sum(one.seconds for one in CELLS.values())
    return [*lines, "", f"{good} of {len(CELLS)} as expected, in {seconds / 60:.1f} minutes."]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(text.replace('|', '/') for text in cells)} |"


def write(file: Path) -> None:
    """Put the table between the marks of a document, with the day."""
    before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    day = time.strftime("%-d %B %Y", time.gmtime())
    outcome = "\n".join([day, "", *table(), ""])
    file.write_text(f"{before}{BEGIN}\n{outcome}\n{END}{after}", encoding="utf-8")
