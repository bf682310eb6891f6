"""Reads the fingerprints of the primary keys in an OpenPGP keyring, so that no host needs gpg.

Packet format and the version 4 fingerprint (SHA-1 over 0x99, length, body) are RFC 4880's
sections 4.2 and 12.2.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

PUBLIC_KEY = 6


def fingerprints(keyring: bytes) -> list[str]:
    """Fingerprints in the order of the file, 40 upper-case hex digits each.

    Raises ValueError when the bytes are no keyring or hold a key of another version than 4.
    """
    found = []
    for tag, body in _packets(_binary(keyring)):
        if tag == PUBLIC_KEY:
            if not body or body[0] != 4:
                raise ValueError(f"key of OpenPGP version {body[0] if body else '?'}, expected 4")
            digest = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body)  # noqa: S324
            found.append(digest.hexdigest().upper())
    if not found:
        raise ValueError("no key in it")
    return found


def _binary(keyring: bytes) -> bytes:
    if not keyring.startswith(b"-----BEGIN PGP"):
        return keyring
    _, _, text = keyring.replace(b"\r\n", b"\n").partition(b"\n\n")
    lines = [line for line in text.split(b"\n") if line and line[:1] not in b"=-"]
    return base64.b64decode(b"".join(lines), validate=True)


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        head = data[at]
        if not head & 0x80:
            raise ValueError(f"no OpenPGP packet at byte {at}")
        at += 1
        if head & 0x40:
            tag = head & 0x3F
            length, size = _new_length(data, at)
        else:
            tag = head >> 2 & 0x0F
            size = 1 << (head & 3)
            if size == 8:
                raise ValueError("packet of indeterminate length")
            length = int.from_bytes(data[at : at + size], "big")
        at += size
        if at + length > len(data):
            raise ValueError("keyring is cut short")
        yield tag, data[at : at + length]
        at += length


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    size = 1 if at >= len(data) or data[at] < 192 else 2 if data[at] < 224 else 5
    if at + size > len(data):
        raise ValueError("keyring is cut short")
    first = data[at]
    if first < 192:
        return first, 1
    if first < 224:
        return (first - 192 << 8) + data[at + 1] + 192, 2
    if first == 255:
        return int.from_bytes(data[at + 1 : at + 5], "big"), 5
    raise ValueError("packet in parts")
