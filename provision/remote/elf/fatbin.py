"""Which kernels a file carries: NVIDIA's fatbinaries, one for each source file that has any.

The format is not published. Sizes, kinds and flags are as nvcc 12.8, 12.9 and 13.1 write them; the
archs agree with what cuobjdump 12.8 lists for torch 2.9.1, torchvision 0.24.1 and vLLM 0.15.1, but
that it does not know of 100f. Payloads may be compressed, their headers never are.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from provision.remote.elf import sections
from provision.remote.elf.archs import Arch

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
"""The second is what is linked on the device (nvcc -rdc=true)."""
MAGIC = b"\x50\xed\x55\xba"
CONTAINER = struct.Struct("<4s2xHQ")
"""Magic, the header's size, the size of what follows it."""
ENTRY = struct.Struct("<H2xIQ12xI8xQ")
"""Kind, the header's size, the payload's; arch, as 90 for compute capability 9.0; flags."""
PTX, CUBIN = 1, 2
"""Other kinds are for linkers, not for the driver."""
ONLY = {0x100000: "a", 0x200000: "f"}
"""The flags of sm_90a (that very arch) and of sm_100f (its family)."""


@dataclass(frozen=True)
class Fatbin:
    """One source file's kernels: compiled, and as PTX that the driver can compile."""

    cubins: frozenset[Arch]
    ptx: frozenset[Arch]


def read(path: Path) -> frozenset[Fatbin]:
    """All different fatbinaries of a file, of which only the headers are read; Fault as sections.

    libtorch_cuda.so has 900 MB of them.
    """
    with path.open("rb") as file:
        parts = [part for part in sections.read(file).sections if part.name in SECTIONS]
        if not parts:
            return frozenset()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return frozenset(
                fatbin
                for part in parts
                for fatbin in parse(data, part.offset, part.offset + part.size)
            )


def parse(data: bytes | mmap.mmap, start: int, end: int) -> Iterator[Fatbin]:
    """The fatbinaries between two places. What is no fatbinary is passed over."""
    at = data.find(MAGIC, start, end)
    while at != -1 and at + CONTAINER.size <= end:
        _, header, size = CONTAINER.unpack_from(data, at)
        after = at + header + size
        if header < CONTAINER.size or after > end:
            after = at + len(MAGIC)
        elif archs := list(_entries(data, at + header, after)):
            yield Fatbin(
                cubins=frozenset(arch for kind, arch in archs if kind == CUBIN),
                ptx=frozenset(arch for kind, arch in archs if kind == PTX),
            )
        at = data.find(MAGIC, after, end)


def _entries(data: bytes | mmap.mmap, at: int, end: int) -> Iterator[tuple[int, Arch]]:
    while at + ENTRY.size <= end:
        kind, header, size, number, flags = ENTRY.unpack_from(data, at)
        if header < ENTRY.size or at + header + size > end:
            return
        if kind in (PTX, CUBIN):
            only = next((word for flag, word in ONLY.items() if flags & flag), "")
            yield kind, Arch(number, only)
        at += header + size
