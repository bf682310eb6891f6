"""What a host may say of a run: the shape of each event, before anybody works with it.

A host is not trusted to speak well: it may be broken, taken over, or have a run of another version
of this tool going on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from provision.errors import shown

SHAPES: Mapping[str, Mapping[str, type]] = {
    "following": {"run": str, "lines": int},
    "start": {"run": str},
    "change": {"id": str},
    "output": {"line": str},
    "done": {"id": str, "seconds": float},
    "failed": {"id": str, "reason": str, "log": list},
    "waiting": {"reason": str},
    "cancelled": {"by": str, "before": str},
    "end": {"run": str, "result": str, "reboot": bool},
    "lost": {"run": str},
    "alive": {},
}
"""Event → the fields that it can't be without."""
SOMETIMES: Mapping[str, type] = {"run": str, "reason": str, "hint": str}
"""Fields that any event may have beside its own."""
RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
"""A run's name: it stands in paths that are shown to the user."""


def fault(event: Mapping[str, Any]) -> str:
    """What is wrong with an event; '' when nothing is."""
    kind = event.get("event")
    shape = SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        return f"event: expected one of {', '.join(SHAPES)}, got {shown(kind)}"
    there = {name: kind for name, kind in SOMETIMES.items() if name in event}
    for name, wanted in {**there, **shape}.items():
        if not _fits(event.get(name), wanted):
            return f"{kind}.{name}: expected {wanted.__name__}, got {shown(event.get(name))}"
    if "run" in event and not RUN.fullmatch(event["run"]):
        return f"{kind}.run: expected the name of a run, got {shown(event['run'])}"
    return ""


def _fits(value: object, wanted: type) -> bool:
    return isinstance(value, wanted) or (wanted is float and type(value) is int)
