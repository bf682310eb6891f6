"""What a shared object asks of the loader and what it offers: System V gABI, "Dynamic Linking".

Read here rather than in readelf's words: it takes seconds for the symbols of torch's libraries, and
binutils is not on every host.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.remote.elf import sections
from provision.remote.elf.sections import text

TAG = struct.Struct("<QQ")
"""Elf64_Dyn: tag, value."""
NEEDED, RPATH, RUNPATH = 1, 15, 29
SYMBOL = struct.Struct("<IBxH16x")
"""Elf64_Sym: name, binding and type, section."""
WEAK = 2
LINK = struct.Struct("<8xII")
"""Elfxx_Verneed and Elfxx_Vernaux, Linux Standard Base "Symbol Versioning": in both, the way to the
next one comes last; before it stands the way to the file's first version, or the version's name.
"""


@dataclass(frozen=True)
class Library:
    """The dynamic part of a shared object."""

    machine: str
    """In uname's words, or in others where no host of ours is one."""
    needed: tuple[str, ...]
    search: tuple[str, ...]
    """Folders where its libraries are looked for first, `$ORIGIN` as written."""
    undefined: frozenset[str]
    """Without weak ones, which may be missing."""
    defined: frozenset[str]
    versions: frozenset[str]
    """What the libraries that it needs must have: GLIBC_2.34, GLIBCXX_3.4.29."""

    @property
    def glibc(self) -> tuple[int, ...]:
        """The highest of glibc's public versions; () where none is asked for."""
        found = (re.fullmatch(r"GLIBC_(\d+(?:\.\d+)+)", version) for version in self.versions)
        return max((tuple(map(int, one[1].split("."))) for one in found if one), default=())


def read(path: Path) -> Library:
    """The dynamic part of a file; Fault where it is no ELF file or not whole."""
    with path.open("rb") as file:
        image = sections.read(file)
        strings = image.part(file, ".dynstr")
        tags = list(_rows(TAG, image.part(file, ".dynamic")))
        symbols = list(_rows(SYMBOL, image.part(file, ".dynsym")))
        needs = image.part(file, ".gnu.version_r")
    return Library(
        machine=image.machine,
        needed=tuple(text(strings, value) for tag, value in tags if tag == NEEDED),
        search=_search(strings, dict(tags)),
        undefined=frozenset(
            text(strings, name) for name, info, there in symbols if not there and info >> 4 != WEAK
        )
        - {""},
        defined=frozenset(text(strings, name) for name, _, there in symbols if there),
        versions=frozenset(text(strings, name) for name in _versions(needs)),
    )


def _rows(row: struct.Struct, table: bytes) -> Iterator[Any]:
    return row.iter_unpack(table[: len(table) // row.size * row.size])


def _search(strings: bytes, tags: dict[int, int]) -> tuple[str, ...]:
    """The loader does not look at RPATH where there is RUNPATH, ld.so(8)."""
    value = tags.get(RUNPATH, tags.get(RPATH))
    folders = "" if value is None else text(strings, value)
    return tuple(folder for folder in folders.split(":") if folder)


def _versions(table: bytes) -> Iterator[int]:
    """Names of all versions: a chain of files, from each of which hangs a chain of versions."""
    seen: set[int] = set()
    for file, first in _chain(table, 0):
        for version, name in _chain(table, file + first):
            if version in seen:
                break
            seen.add(version)
            yield name


def _chain(table: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Place and content of each link; the way to the next is 0 in the last."""
    while at + LINK.size <= len(table):
        content, further = LINK.unpack_from(table, at)
        yield at, content
        if not further:
            return
        at += further
