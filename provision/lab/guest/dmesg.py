"""Simulated dmesg: what the simulated driver reported to the kernel's log."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from . import state

TEXTS = {
    48: "pid='<unknown>', name=<unknown>, DBE (double bit error) ECC Error",
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
}


def main(argv: list[str]) -> int:
    """Print all there is; no option changes that."""
    if argv[1:] == ["--version"]:
        sys.stdout.write("dmesg from util-linux (simulated by the lab host)\n")
        return 0
    for number, line in enumerate(_lines()):
        sys.stdout.write(f"[{8.15 + number:12.6f}] {line}\n")
    return 0


def _lines() -> Iterator[str]:
    yield f"Linux version {state.running_kernel()} (simulated)"
    if version := state.driver_version():
        yield f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {version}  (simulated)"
    for gpu in state.hardware()["gpus"]:
        for code in gpu["faults"]["xids"]:
            text = TEXTS.get(code, "pid=1, name=python3, simulated")
            yield f"NVRM: Xid (PCI:{gpu['slot'].partition('.')[0].upper()}): {code}, {text}"
