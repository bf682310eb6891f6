"""Whether the firmware only starts what is signed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import exists
from provision.remote.command import Failed, Missing, run
from provision.remote.probe import Query

NAME = "secure_boot"
EFI = Path("/sys/firmware/efi")
KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
"""Ubuntu's and Debian's own key for modules, both DER."""
VARIABLE = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
"""The variable of the UEFI specification, under EFI_GLOBAL_VARIABLE's GUID."""


def collect(_query: Query) -> dict[str, Any]:
    enabled = from_variables(EFI / "efivars") if EFI.is_dir() else _asked()
    return {"enabled": enabled, "enrolled": _enrolled()}


def _enrolled() -> bool | None:
    """Whether the firmware knows the key with which DKMS signs what it builds.

    None where there is no key, and where nothing is installed that could ask.
    """
    try:
        for key in KEYS:
            if exists(key):
                return parse_test_key(run(["mokutil", "--test-key", key]).out)
    except Missing:
        pass
    return None


def parse_test_key(text: str) -> bool:
    """mokutil's sentence; its exit status has changed its meaning over the years."""
    return "is already enrolled" in text


def _asked() -> bool:
    """What mokutil says where /sys/firmware is hidden, as in a container."""
    try:
        state = parse_mokutil(run(["mokutil", "--sb-state"]).out)
    except Missing:
        state = None
    if state is None:
        raise Missing("no EFI")
    return state


def from_variables(efivars: Path) -> bool:
    """Read the firmware's variables; old firmware has none about Secure Boot."""
    if not efivars.is_dir() or not any(efivars.iterdir()):
        raise Failed("EFI variables are not mounted")
    try:
        return parse_variable((efivars / VARIABLE).read_bytes())
    except FileNotFoundError as error:
        raise Missing("firmware without Secure Boot") from error


def parse_variable(data: bytes) -> bool:
    """Four bytes of attributes, then one that is 0 or 1."""
    if len(data) != 5:
        raise Failed(f"EFI variable SecureBoot has {len(data)} bytes instead of 5")
    return data[4] == 1


def parse_mokutil(text: str) -> bool | None:
    """What mokutil knows; None where it sees no EFI either."""
    match = re.search(r"^SecureBoot (enabled|disabled)", text, re.MULTILINE)
    return match[1] == "enabled" if match else None
