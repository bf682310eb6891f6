"""What the probe saw, for people: a line per collector."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from provision.facts import Absent, Facts, Unknown
from provision.report.plain import plain


def table(host: str, facts: Facts) -> Table:
    """All facts of a host."""
    rows = Table("fact", "value", title=host, title_justify="left", show_edge=False)
    for name in Facts.__dataclass_fields__:
        answer = getattr(facts, name)
        match answer:
            case Absent():
                rows.add_row(name, Text("absent", "dim"))
            case Unknown(reason=reason):
                rows.add_row(name, Text(f"unknown: {plain(reason)}", "red"))
            case _:
                rows.add_row(name, Text(plain(summary(answer))))
    return rows


def summary(answer: object) -> str:
    """A fact in one line."""
    if isinstance(answer, dict):
        shown = ", ".join(f"{key}: {_short(value)}" for key, value in list(answer.items())[:6])
        return shown + (f", … ({len(answer)})" if len(answer) > 6 else "")
    if isinstance(answer, list):
        return f"{len(answer)}: " + "; ".join(_short(item) for item in answer[:2])
    return _short(answer)


def _short(value: object) -> str:
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is None:
        text = str(value)
    else:
        text = ", ".join(f"{name} {_short(getattr(value, name))}" for name in fields)
    return text if len(text) <= 160 else text[:159] + "…"
