"""Holds the CUDA extensions of an environment to its torch, its libraries, this host and its GPUs.

Nothing is imported: what the loader and the driver would find wrong stands in the files. Importing
would tell of some of it in the words of another fault, and of missing kernels not before the first
is launched.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from provision.remote.command import Failed, Missing
from provision.remote.elf import extensions, fatbin, kernels, loader, torch
from provision.remote.elf.archs import parse_capability
from provision.remote.elf.extensions import TORCH, Extension
from provision.remote.elf.fatbin import Fatbin
from provision.remote.elf.sections import Fault
from provision.remote.elf.torch import Torch

CUDART = re.compile(r"libcudart\b.*\.so\.(\d+)(\.\d+)*")
"""auditwheel puts a hash into the names of the libraries that it bundles."""


def faults(site_packages: Path, *, gpus: list[str] | None) -> list[str]:
    """What is wrong with the CUDA extensions, each in a sentence that begins with a distribution.

    `gpus` are the GPUs' compute capabilities ("12.0"), None where they are not known.
    """
    files = list(extensions.shared_objects(site_packages))
    try:
        found, wrong = extensions.find(files)
        if found:
            wrong += _of_each(site_packages, found)
            names = {*loader.cached(), *(file.path.name for file in files)}
            wrong += loader.faults(found, names)
        if gpus is not None:
            wrong += _of_kernels(site_packages, found, gpus)
    except Fault as fault:
        return [f"{TORCH}: {fault}"]
    except (Missing, Failed) as reason:
        return [f"the CUDA extensions can't be checked: {reason}"]
    return wrong


def _of_each(site: Path, found: Iterable[Extension]) -> Iterator[str]:
    """Faults of single extensions, unless another variant of the same extension has none."""
    inside = torch.read(site) if any(extension.of_torch for extension in found) else None
    own: defaultdict[str, set[str]] = defaultdict(set)
    for extension in found:
        own[extension.distribution] |= extension.library.defined
    variants: defaultdict[tuple[str, str], list[list[str]]] = defaultdict(list)
    for extension in found:
        wrong = list(_of_host(extension))
        if inside and extension.of_torch:
            wrong += _of_torch(extension, inside, own[extension.distribution])
        variants[extension.kind].append(wrong)
    for wrongs in variants.values():
        if all(wrongs):
            yield from (fault for wrong in wrongs for fault in wrong)


def _of_torch(extension: Extension, inside: Torch, own: Collection[str]) -> Iterator[str]:
    """Symbols and CUDA of an extension against those of the torch inside.

    `own` are the symbols that its distribution's libraries define.
    """
    missing = {symbol for symbol in extension.library.undefined if torch.SYMBOL.match(symbol)}
    missing -= inside.symbols.union(own)
    if missing:
        yield (
            f"{extension.name} was built for another torch than {inside.version} "
            f"({_counted(missing)})"
        )
    for need in extension.library.needed:
        match = CUDART.fullmatch(need)
        if match and int(match[1]) != inside.cuda:
            of = f"is for CUDA {inside.cuda}" if inside.cuda else "has no CUDA"
            yield f"{extension.name} was built for CUDA {match[1]}, torch {inside.version} {of}"


def _of_host(extension: Extension) -> Iterator[str]:
    """Machine and C library that an extension is for against this host's."""
    library, machine = extension.library, os.uname().machine
    if library.machine != machine:
        yield f"{extension.name} is for {library.machine}, this host is {machine}"
    words = os.confstr("CS_GNU_LIBC_VERSION") or ""
    glibc = tuple(map(int, re.findall(r"\d+", words)))  # of 'glibc 2.36'
    if library.glibc > glibc:
        needs, has = (".".join(map(str, version)) for version in (library.glibc, glibc))
        yield f"{extension.name} needs glibc {needs}, this host has {has}"


def _of_kernels(site: Path, found: Iterable[Extension], gpus: Iterable[str]) -> Iterator[str]:
    """Distributions whose kernels do not serve the GPUs; torch itself may be one."""
    carried: defaultdict[str, set[Fatbin]] = defaultdict(set)
    for extension in found:
        carried[extension.distribution] |= fatbin.read(extension.path)
    if (library := torch.kernels(site)).exists():
        carried[TORCH] |= fatbin.read(library)
    capabilities = [parse_capability(gpu) for gpu in gpus]
    for distribution, fatbins in carried.items():
        if lack := kernels.lacking(fatbins, capabilities):
            yield f"{distribution}: {lack}"


def _counted(missing: Collection[str]) -> str:
    """How many symbols there are, and the shortest of them."""
    example = torch.spelt(min(missing, key=lambda symbol: (len(symbol), symbol)))
    if len(missing) == 1:
        return f"1 symbol is missing{example and ': '}{example}"
    return f"{len(missing)} symbols are missing{example and ', such as '}{example}"
