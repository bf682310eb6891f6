"""What changes promise: parts of the facts that become true. Merged to plan on, held to the host.

A promise maps a collector to what its value gains; a None in it says that the thing is gone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from provision.facts import Json

UNSEEN = "?"
"""In a promise: a value that only the host will tell."""


def merge(raw: Json, *promises: Json) -> dict[str, Any]:
    """The probe's JSON once promises came true: each maps a collector to what its value gains.

    A promise's None says that the thing is gone. What is unknown stays unknown: a part of it can
    be promised, but not the rest.
    """
    merged: dict[str, Any] = copy.deepcopy(dict(raw))
    for promise in promises:
        for name, gained in promise.items():
            answer = merged["facts"].get(name) or {}
            if answer.get("status") not in ("ok", "absent"):
                continue
            value = answer.get("value", {})
            merged["facts"][name] = {"status": "ok", "value": _merged(value, gained)}
    return merged


def _merged(value: Any, gained: Any) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(gained, Mapping) or not isinstance(value, Mapping):
        return gained
    result = dict(value)
    for key, part in gained.items():
        result[key] = _merged(result.get(key, {}), part) if isinstance(part, Mapping) else part
    return result


def holds(raw: Json, promise: Json) -> list[str]:
    """The dotted paths where the probe's JSON does not bear out a promise; [] when it does."""
    return [
        line
        for name, gained in promise.items()
        for line in _missing(raw["facts"].get(name, {}).get("value"), gained, name)
    ]


def _missing(value: Any, gained: Any, path: str) -> list[str]:  # noqa: ANN401 - any JSON
    if isinstance(gained, Mapping):
        if not isinstance(value, Mapping):
            return [f"{path}: promised {dict(gained)!r}, found {value!r}"]
        return [
            line
            for key, part in gained.items()
            for line in _missing(value.get(key), part, f"{path}.{key}")
        ]
    if gained == UNSEEN and value is not None:
        return []
    return [] if value == gained else [f"{path}: promised {gained!r}, found {value!r}"]
