"""Simulated nvidia-modprobe: loads the module and makes its device nodes."""

from __future__ import annotations

import sys

from . import modules, state


def main(argv: list[str]) -> int:
    """-u asks for nvidia-uvm as well; other options change nothing here."""
    if {"-v", "--version"} & set(argv):
        sys.stdout.write(f"nvidia-modprobe:  version {state.library_version()} (simulated)\n")
        return 0
    wanted = ["nvidia"]
    if any(word == "--unified-memory" or (word[:1] == "-" and "u" in word) for word in argv[1:]):
        wanted.append("nvidia_uvm")
    for name in wanted:
        try:
            modules.load(name)
        except modules.RefusedError:
            return 1
        modules.make_nodes(name)
    return 0
