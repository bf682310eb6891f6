"""Which versions the compilers and build tools have."""

from __future__ import annotations

import re

from provision.remote.command import Failed, Missing, output
from provision.remote.probe import Query

NAME = "compilers"
GCC = re.compile(r"(?:gcc|g\+\+|c\+\+|cc)(?:-\d+)?")
"""gcc's --version starts with the distribution's package version: it is asked otherwise."""


def collect(query: Query) -> dict[str, str | None]:
    return {name: _version(name) for name in query["compilers"]}


def _version(name: str) -> str | None:
    options = ["-dumpfullversion", "-dumpversion"] if GCC.fullmatch(name) else ["--version"]
    try:
        return parse_version(name, output([name, *options]))
    except Missing:
        return None


def parse_version(name: str, text: str) -> str:
    """The first version that the program prints."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    if not match:
        raise Failed(f"{name} states no version: {text.strip()[:80]!r}")
    return match[0]
