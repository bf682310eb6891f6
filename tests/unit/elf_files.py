"""Builds small ELF files and environments that hold them: no compiler is needed."""

import os
import struct

from provision.remote.elf.sections import MACHINES

MACHINE = {word: number for number, word in MACHINES.items()}[os.uname().machine]
STRTAB, DYNAMIC, NOBITS, DYNSYM, VERNEED = 3, 6, 8, 11, 0x6FFFFFFE
GLOBAL, WEAK = 1, 2
PTX, CUBIN = 1, 2


class Strings:
    """A string table that grows."""

    def __init__(self):
        self.content = b"\0"

    def __call__(self, text):
        place = len(self.content)
        self.content += text.encode() + b"\0"
        return place


def shared_object(
    *,
    needed=(),
    runpath=None,
    rpath=None,
    undefined=(),
    weak=(),
    defined=(),
    versions=None,
    fatbin=b"",
    machine=MACHINE,
):
    """A shared object for this machine; `versions` are those of each library that it needs."""
    strings = Strings()
    tags = [(1, strings(name)) for name in needed]
    tags += [(tag, strings(path)) for tag, path in ((29, runpath), (15, rpath)) if path is not None]
    symbols = [(0, 0, 0)]
    symbols += [(strings(name), GLOBAL, 0) for name in undefined]
    symbols += [(strings(name), WEAK, 0) for name in weak]
    symbols += [(strings(name), GLOBAL, 7) for name in defined]
    parts = {
        ".dynamic": (DYNAMIC, b"".join(struct.pack("<QQ", *tag) for tag in [*tags, (0, 0)])),
        ".dynsym": (
            DYNSYM,
            b"".join(
                struct.pack("<IBBHQQ", name, bind << 4, 0, section, 0, 0)
                for name, bind, section in symbols
            ),
        ),
        ".gnu.version_r": (VERNEED, version_needs(strings, versions or {})),
        ".dynstr": (STRTAB, strings.content),
        ".bss": (NOBITS, b""),
        ".nv_fatbin": (1, fatbin),
    }
    return image(parts, machine)


def version_needs(strings, versions):
    """The Verneed of each library with its Vernaux behind it."""
    table = b""
    for number, (library, names) in enumerate(versions.items(), 1):
        size = 16 + 16 * len(names)
        further = size if number < len(versions) else 0
        table += struct.pack("<HHIII", 1, len(names), strings(library), 16, further)
        for place, name in enumerate(names, 1):
            step = 16 if place < len(names) else 0
            table += struct.pack("<IHHII", 0, 0, 2, strings(name), step)
    return table


def image(parts, machine=MACHINE):
    """An ELF file of named sections, its section table last, as linkers put it."""
    names = Strings()
    table = [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    content = b""
    for name, (kind, data) in [*parts.items(), (".shstrtab", (STRTAB, b""))]:
        number = names(name)
        data = names.content if name == ".shstrtab" else data
        size = 1 << 40 if kind == NOBITS else len(data)
        entry = struct.pack("<IIQQQQIIQQ", number, kind, 0, 0, 64 + len(content), size, *[0] * 4)
        table.append(entry)
        content += data
    head = struct.pack(
        *("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 3, machine, 1, 0, 0),
        *(64 + len(content), 0, 64, 0, 0, 64, len(table), len(table) - 1),
    )
    return head + content + b"".join(table)


def container(*entries):
    """One source file's fatbinary."""
    inside = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(inside)) + inside


def entry(kind, arch, *, flags=0x11, payload=b"compressed or not", header=64):
    """A fatbinary's kernels of one kind for one arch."""
    fields = struct.pack("<HHIQ12xI8xQ", kind, 0x101, header, len(payload), arch, flags)
    return fields.ljust(header, b"\0") + payload


def cubins(*archs):
    return container(*(entry(CUBIN, arch) for arch in archs))


TORCH_VERSION = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.9.1+cu128'
debug = False
cuda: Optional[str] = '12.8'
git_version = '5811a8d7da873dd699ff6687092c225caffcf1bb'
hip: Optional[str] = None
"""


def distribution(site, name, version, files):
    """Put a distribution into a site-packages folder, its files by path."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    for path, content in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in files))
