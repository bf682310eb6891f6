"""Orders versions as dpkg does (deb-version(7)), without epoch and revision."""

from __future__ import annotations

import re

Key = list[tuple[list[int], int]]


def key(version: str) -> Key:
    """Sort key: runs of text and numbers in turn; '~' sorts before everything, even the end."""
    parts = re.findall(r"(\D*)(\d*)", version)
    return [([*map(_weight, text), 0], int(number or 0)) for text, number in parts]


def _weight(character: str) -> int:
    """Weight of one character: '~', then the end (0), then letters, then all others."""
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256
