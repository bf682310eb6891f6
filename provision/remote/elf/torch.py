"""The torch of an environment, as its extensions meet it: version, CUDA, symbols."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from provision.remote.command import Missing, run
from provision.remote.elf import dynamic
from provision.remote.elf.sections import Fault

VERSION = re.compile(r"^__version__ *= *'([^']+)'", re.MULTILINE)
CUDA = re.compile(r"^cuda\b[^=]*= *'(\d+)\.", re.MULTILINE)
"""What torch/version.py says: the wheel's name lacks the local part, +cu128."""
SYMBOL = re.compile(r"_Z(?:T[VTIS]|GV)?N[VrKRO]*(?:3c10|2at|5torch|6caffe2)|THP|(?:aoti_)?torch_")
"""Itanium C++ ABI, "Mangling": names in torch's namespaces, their vtables, type information and
guards; then the C names of torch's Python objects and of its stable interface.
"""


@dataclass(frozen=True)
class Torch:
    """What is inside."""

    version: str
    cuda: int | None
    """Major version of CUDA; None for a torch without it."""
    symbols: frozenset[str]
    """All that its libraries define."""


def read(site_packages: Path) -> Torch | None:
    """None where torch is not installed; Fault names the file of torch that is damaged."""
    try:
        text = (site_packages / "torch/version.py").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    version, cuda = parse_version(text)
    symbols: set[str] = set()
    for path in sorted((site_packages / "torch/lib").glob("lib*.so")):
        try:
            symbols |= dynamic.read(path).defined
        except Fault as fault:
            raise Fault(f"{path.name} {fault}") from fault
    return Torch(version, cuda, frozenset(symbols))


def kernels(site_packages: Path) -> Path:
    """The library with torch's own kernels, which a torch without CUDA lacks.

    Not those of libtorch_cuda_linalg.so: MAGMA, inside, is compiled for more archs than torch.
    """
    return site_packages / "torch/lib/libtorch_cuda.so"


def parse_version(text: str) -> tuple[str, int | None]:
    """Version and CUDA's major version in torch/version.py."""
    version = VERSION.search(text)
    if not version:
        raise Fault("version.py states no version")
    cuda = CUDA.search(text)
    return version[1], int(cuda[1]) if cuda else None


def spelt(symbol: str) -> str:
    """A symbol as its source has it; '' where nothing can tell."""
    if not symbol.startswith("_Z"):
        return symbol
    try:
        said = run(["c++filt", symbol])
    except Missing:
        return ""
    name = said.out.strip()
    return name if name != symbol else ""
