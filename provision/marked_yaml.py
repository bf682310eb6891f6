"""YAML → plain data and the line of every key, so that a message can say where it is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from provision.errors import UsageError, dotted, shown

Path = tuple[Any, ...]
DEPTH = 20
"""Mappings and lists within each other, of which an inventory has five; Python can't do 500."""
ENTRIES = 100_000
"""Of a whole tree: ten lines of aliases of aliases make billions."""


class Lines:
    """Path of every key and item → its line, counted from 1."""

    def __init__(self, found: Mapping[Path, int]) -> None:
        self._found = found

    def __contains__(self, path: Path) -> bool:
        return path in self._found

    def __getitem__(self, path: Path) -> int:
        """A path's line; of one that came by an alias or was left out, that of what holds it."""
        known = (path[:n] for n in range(len(path), 0, -1) if path[:n] in self._found)
        return next((self._found[part] for part in known), 1)


def read(text: str, file: str) -> tuple[Any, Lines]:
    """The file's data, and where everything stands.

    Raises UsageError naming file and line.
    """
    try:
        loader = _Loader(text)
        tree = loader.get_single_node()
        lines: dict[Path, int] = {}
        _mark(tree, (), file, lines)
        return (None if tree is None else loader.construct_document(tree)), Lines(lines)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageError(f"{file}:{line}: character {error.character:#x} is not allowed") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        hint = "put it in quotes if it is text" if isinstance(error, _NoSuchValue) else ""
        raise UsageError(f"{file}:{line}: {error.problem}", hint=hint) from error


class _NoSuchValue(ConstructorError):
    """What YAML takes for a date, a number or the like, and is none."""


class _Loader(yaml.SafeLoader):
    """PyYAML's own; it says of every mistake in which line it is."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise ConstructorError(problem="it is nested too deeply", problem_mark=mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            problem = f"{shown(node.value)} is no {node.tag.rpartition(':')[2]}"
            raise _NoSuchValue(problem=problem, problem_mark=node.start_mark) from error


def _mark(node: yaml.Node | None, path: Path, file: str, lines: dict[Path, int]) -> None:
    """Note the line of every key and item below a node.

    Raises UsageError for a key that stands twice, and for a tree that has no end.
    """
    if len(path) > DEPTH or len(lines) > ENTRIES:
        raise UsageError(
            f"{file}:{lines[path[:1]]}: {dotted(path[:3])}: an alias that holds itself, or too many"
        )
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # PyYAML itself refuses it
            inner = (*path, key.value)
            line = key.start_mark.line + 1
            if inner in lines:
                raise UsageError(
                    f"{file}:{line}: {dotted(inner)}: stands twice, first in line {lines[inner]}"
                )
            lines[inner] = line
            _mark(value, inner, file, lines)
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            inner = (*path, at)
            lines[inner] = value.start_mark.line + 1
            _mark(value, inner, file, lines)
