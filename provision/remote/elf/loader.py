"""What the loader would find: libraries of the environment and of the host."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from provision.remote.command import output
from provision.remote.elf.extensions import Extension

CACHED = re.compile(r"^\s*(\S+) \([^)]*(?:x86-64|AArch64)[^)]*\) => ", re.MULTILINE)
ELSEWHERE = re.compile(r"libcuda\.so\.1|libnvidia-ml\.so\.1|libpython.*")
"""The driver's, and the interpreter's own."""
ORIGIN = re.compile(r"\$(ORIGIN\b|\{ORIGIN\})")


def cached() -> list[str]:
    """The 64-bit libraries of the host."""
    return parse_ldconfig(output(["ldconfig", "-p"]))


def parse_ldconfig(text: str) -> list[str]:
    return CACHED.findall(text)


def faults(extensions: Iterable[Extension], names: Collection[str]) -> Iterator[str]:
    """The distributions none of whose extensions can be loaded.

    One that can't may be for something optional: an FFmpeg or a TensorRT that is not there.
    `names` are the libraries of the host and of all distributions, wherever those lie: a package
    loads what it needs by path before its extension asks for it by name.
    """
    of: defaultdict[str, list[tuple[Extension, list[str]]]] = defaultdict(list)
    for extension in extensions:
        lost = [need for need in extension.library.needed if not _there(need, extension, names)]
        of[extension.distribution].append((extension, lost))
    for lots in of.values():
        if all(lost for _, lost in lots):
            extension, lost = lots[0]
            needs = ", ".join(lost)
            more = f" (and {len(lots) - 1} more)" if len(lots) > 1 else ""
            yield (
                f"{extension.name}{more} can't be loaded: neither the environment nor the host "
                f"has {needs}"
            )


def _there(need: str, extension: Extension, names: Collection[str]) -> bool:
    if need in names or ELSEWHERE.fullmatch(need):
        return True
    origin = str(extension.path.parent)
    folders = (ORIGIN.sub(lambda _: origin, folder) for folder in extension.library.search)
    return any((Path(folder) / need).exists() for folder in folders)
