"""Machine owner keys: the one that signs what DKMS builds, and those the firmware trusts."""

from __future__ import annotations

import hashlib
from pathlib import Path

from . import state

ENROLLED = Path("/var/lib/lab/mok-enrolled")
"""Fingerprints of enrolled keys, one a line: the firmware's variable, in effect."""

SUBJECT = "DKMS module signing key"


def paths() -> tuple[Path, Path]:
    """Private and public key, where the distribution's DKMS keeps them."""
    if "\nID=ubuntu\n" in Path("/etc/os-release").read_text(encoding="utf-8"):
        folder = Path("/var/lib/shim-signed/mok")
        return folder / "MOK.priv", folder / "MOK.der"
    return Path("/var/lib/dkms/mok.key"), Path("/var/lib/dkms/mok.pub")


def own() -> str:
    """Fingerprint of the host's key, which is made when there is none."""
    private, public = paths()
    if not public.exists():
        private.parent.mkdir(parents=True, exist_ok=True)
        private.write_text("simulated private key\n", encoding="utf-8")
        private.chmod(0o600)
        names = (Path("/etc/machine-id"), Path("/etc/hostname"))
        host = "".join(name.read_text(encoding="utf-8") for name in names)
        public.write_text(f"simulated certificate\nCN={SUBJECT}\n{host}", encoding="utf-8")
    return fingerprint(public)


def fingerprint(certificate: Path) -> str:
    """A certificate's SHA-1, as mokutil writes it."""
    digest = hashlib.sha1(certificate.read_bytes(), usedforsecurity=False).hexdigest()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def enrolled() -> list[str]:
    """Fingerprints that the firmware trusts beside the distribution's own."""
    return ENROLLED.read_text(encoding="utf-8").split() if ENROLLED.exists() else []


def enrol_at_first_boot() -> None:
    """A host described as enrolled has its key before anything is built."""
    if state.hardware()["mok_enrolled"] and not ENROLLED.exists():
        key = own()
        ENROLLED.parent.mkdir(parents=True, exist_ok=True)
        ENROLLED.write_text(f"{key}\n", encoding="utf-8")
