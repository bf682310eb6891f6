"""Simulated mokutil: Secure Boot's state, and the machine owner keys that are enrolled."""

from __future__ import annotations

import sys
from pathlib import Path

from . import mok, state


def main(argv: list[str]) -> int:
    """Answer --sb-state, --list-enrolled, --list-new and --test-key; enrolling needs a console."""
    secure_boot = state.hardware()["secure_boot"]
    words = set(argv[1:])
    if "--version" in words:
        sys.stdout.write("0.7.2 (simulated by the lab host)\n")
        return 0
    if secure_boot == "unsupported":
        sys.stderr.write("EFI variables are not supported on this system\n")
        return 255
    if "--sb-state" in words:
        sys.stdout.write(f"SecureBoot {secure_boot}\n")
        return 0
    if words & {"--test-key", "-t"}:
        return _test(Path(argv[-1]))
    if words & {"--list-enrolled", "-l"}:
        for number, key in enumerate(mok.enrolled(), 1):
            sys.stdout.write(
                f"[key {number}]\nSHA1 Fingerprint: {key}\nCertificate:\n    Data:\n"
                f"        Subject: CN={mok.SUBJECT}\n\n"
            )
        return 0
    return 0 if words & {"--list-new", "-N"} else 1


def _test(certificate: Path) -> int:
    if not certificate.exists():
        sys.stderr.write(f"Failed to open {certificate}\n")
        return 255
    known = mok.fingerprint(certificate) in mok.enrolled()
    sys.stdout.write(f"{certificate} is {'already' if known else 'not'} enrolled\n")
    return int(known)
