"""The outer form of an ELF file, elf(5): which machine it is for, and where its sections lie."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO

MAGIC = b"\x7fELF"
WIDE = b"\x02\x01"
"""64 bits, little-endian: what every machine with NVIDIA's GPUs has."""
HEADER = struct.Struct("<16xHH20xQ10xHHH")
"""Elf64_Ehdr: type, machine, section table's place, its entries' size and number, names' index."""
ENTRY = struct.Struct("<IIQQQQ24x")
"""Elf64_Shdr: name, type, flags, address, offset, size."""
NOBITS = 8
"""A section that takes no room in the file."""
MACHINES = {62: "x86_64", 183: "aarch64"}
"""ELF's number → uname's word."""


class Fault(Exception):
    """What is wrong with a file, in words that follow its name."""


class NotElf(Fault):
    """The file is something else, such as a linker script."""


@dataclass(frozen=True)
class Section:
    """A part of the file, in bytes from its beginning."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Image:
    """An ELF file that is whole."""

    machine: str
    sections: tuple[Section, ...]

    def part(self, file: BinaryIO, name: str) -> bytes:
        """A section's content, b'' where there is no such section."""
        found = [section for section in self.sections if section.name == name]
        return b"".join(_slice(file, section.offset, section.size) for section in found)


def read(file: BinaryIO) -> Image:
    """Read header and section table; Fault where it is no ELF file or not whole.

    A file of another width or byte order is known by its machine alone.
    """
    size = file.seek(0, os.SEEK_END)
    head = _slice(file, 0, HEADER.size)
    if not head.startswith(MAGIC):
        raise NotElf("is no ELF file")
    if head[4:6] != WIDE:
        return Image("a 32-bit or big-endian machine", ())
    if len(head) < HEADER.size:
        raise Fault(f"is cut short: it has {size} bytes, its header alone {HEADER.size}")
    _type, machine, table, width, count, names = HEADER.unpack(head)
    entries = _entries(file, size, table, width, count)
    end = max((offset + length for _, kind, offset, length in entries if kind != NOBITS), default=0)
    _whole(size, end)
    strings = b""
    if names < len(entries):
        strings = _slice(file, entries[names][2], entries[names][3])
    return Image(
        MACHINES.get(machine, f"ELF machine {machine}"),
        tuple(
            Section(text(strings, name), offset, length)
            for name, kind, offset, length in entries
            if kind != NOBITS
        ),
    )


def _entries(
    file: BinaryIO, size: int, table: int, width: int, count: int
) -> list[tuple[int, int, int, int]]:
    """Name, type, offset and size of each section; at most 65 535, which is the count's width."""
    if not count:
        return []
    if width != ENTRY.size:
        raise Fault(f"is damaged: its section headers have {width} bytes, expected {ENTRY.size}")
    _whole(size, table + count * width)
    rows = ENTRY.iter_unpack(_slice(file, table, count * width))
    return [(name, kind, offset, length) for name, kind, _, _, offset, length in rows]


def _whole(size: int, end: int) -> None:
    if end > size:
        raise Fault(f"is cut short: it has {size} bytes, its headers tell of {end}")


def _slice(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def text(strings: bytes, start: int) -> str:
    """The string that begins at a place of a string table; '' where none does."""
    return strings[start : max(strings.find(b"\0", start), start)].decode("ascii", "replace")
