"""The CUDA extensions of an environment, by the distributions whose RECORD files name them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from provision.remote.elf import dynamic
from provision.remote.elf.dynamic import Library
from provision.remote.elf.sections import Fault, NotElf

SHARED_OBJECT = re.compile(r"\.so(\.\d+)*$")
TORCH = "torch"
"""Its own libraries are what extensions are held to."""
OF_TORCH = ("libtorch", "libc10")
OF_CUDA = (*OF_TORCH, "libcuda")
"""What needs one of these, libcudart among them, is a CUDA extension."""
VERSION = re.compile(r"\d{2,}")


@dataclass(frozen=True)
class Recorded:
    """A shared object that a distribution brought."""

    distribution: str
    path: Path


@dataclass(frozen=True)
class Extension:
    """A shared object that needs libraries of torch or CUDA."""

    distribution: str
    path: Path
    library: Library

    @property
    def name(self) -> str:
        return f"{self.distribution}: {self.path.name}"

    @property
    def of_torch(self) -> bool:
        """It is linked with torch, not with CUDA alone."""
        return any(need.startswith(OF_TORCH) for need in self.library.needed)

    @property
    def kind(self) -> tuple[str, str]:
        """The same for an extension's variants, of which its distribution loads the one that fits.

        torch-c-dlpack-ext has torch24 to torch29, bitsandbytes cuda118 to cuda132. What differs in
        a single digit is another extension: vLLM's _vllm_fa2_C and _vllm_fa3_C.
        """
        return self.distribution, VERSION.sub("#", self.path.name)


def shared_objects(site_packages: Path) -> Iterator[Recorded]:
    """Every shared object that is recorded and there."""
    for record in sorted(site_packages.glob("*.dist-info/RECORD")):
        distribution = record.parent.name.partition("-")[0]
        with record.open(newline="", encoding="utf-8") as file:
            for name, *_ in csv.reader(file):
                if SHARED_OBJECT.search(name) and (path := site_packages / name).is_file():
                    yield Recorded(distribution, path)


def find(files: Iterable[Recorded]) -> tuple[list[Extension], list[str]]:
    """The CUDA extensions among them, and what is wrong with files that can't be read."""
    found: list[Extension] = []
    faults: list[str] = []
    for file in files:
        if file.distribution == TORCH:
            continue
        try:
            library = dynamic.read(file.path)
        except NotElf:
            continue
        except Fault as fault:
            faults.append(f"{file.distribution}: {file.path.name} {fault}")
        else:
            if any(need.startswith(OF_CUDA) for need in library.needed):
                found.append(Extension(file.distribution, file.path, library))
    return found, faults
