"""What is wrong with a file's data, as one message: which field, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel, RootModel, ValidationError

from provision.errors import dotted, shown

TABLES = {"dict_type", "mapping_type", "model_type"}
"""What pydantic calls the mistake where fields with names were expected."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """The one that is told of."""

    path: tuple[Any, ...]
    """Where it stands: keys, and numbers of a list's items; () for the whole file."""
    what: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.what}" if self.path else self.what


def first(error: ValidationError, model: type[BaseModel], own: Collection[str] = ()) -> Mistake:
    """Of all that pydantic found wrong with a `model`'s data, what says most.

    `own`: fields that are not the file's to say.
    """
    every = error.errors()
    # A misspelt field is also a missing one: the former says more.
    one = next((one for one in every if one["type"] == "extra_forbidden"), every[0])
    path = tuple(part for part in one["loc"] if part != "[key]")
    if one["type"] == "extra_forbidden":
        return unknown_field(path, [name for name in _fields(model, path[:-1]) if name not in own])
    # Of a missing field, and of fields that do not go together, it gives all that stands around.
    whole = one["type"] == "missing" or isinstance(one["input"], dict)
    got = "" if whole else f", got {shown(one['input'])}"
    # Its own words name Python's types, and classes of ours.
    what = "expected a table" if one["type"] in TABLES else one["msg"].removeprefix("Value error, ")
    what = "expected a list" if one["type"] == "tuple_type" else what
    return Mistake(path, what + got)


def unknown_field(path: tuple[Any, ...], there: Sequence[str]) -> Mistake:
    """A field that is none of those there may be."""
    near = get_close_matches(str(path[-1]), there, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return Mistake(path, f"unknown field{meant}", f"fields there: {', '.join(there)}")


def _fields(kind: Any, path: Sequence[Any]) -> tuple[str, ...]:  # noqa: ANN401 - any annotation
    """The fields of the model at a path within a type; () where there is none."""
    args = get_args(kind)
    if (origin := get_origin(kind)) in (dict, tuple):
        return _fields(args[origin is dict], path[1:])
    if isinstance(kind, type) and issubclass(kind, RootModel):
        return _fields(kind.model_fields["root"].annotation, path)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        inner = kind.model_fields
        return _fields(inner[path[0]].annotation, path[1:]) if path else tuple(inner)
    return next(filter(None, (_fields(one, path) for one in args)), ())
