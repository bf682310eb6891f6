"""Simulated mokutil: says whether Secure Boot is on."""

from __future__ import annotations

import sys

from . import state


def main(argv: list[str]) -> int:
    """Answer --sb-state; no keys are enrolled."""
    secure_boot = state.hardware()["secure_boot"]
    if "--version" in argv:
        sys.stdout.write("0.7.2 (simulated by the lab host)\n")
        return 0
    if secure_boot == "unsupported":
        sys.stderr.write("EFI variables are not supported on this system\n")
        return 255
    if "--sb-state" in argv:
        sys.stdout.write(f"SecureBoot {secure_boot}\n")
        return 0
    if "--test-key" in argv or "-t" in argv:
        sys.stdout.write(f"{argv[-1]} is not enrolled\n")
        return 0
    return 0 if {"--list-enrolled", "-l", "--list-new", "-N"} & set(argv) else 1
