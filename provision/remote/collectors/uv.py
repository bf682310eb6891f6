"""Which version each asked-for uv executable has."""

from __future__ import annotations

import re

from provision.remote.collectors.reading import exists
from provision.remote.command import Failed, Missing, output
from provision.remote.probe import Query

NAME = "uv"


def collect(query: Query) -> dict[str, str | None]:
    return {path: _version(path) for path in query["uv"]}


def _version(path: str) -> str | None:
    if not exists(path):
        return None
    try:
        return parse_version(output([path, "--version"]))
    except Missing as missing:
        raise Failed(f"{path} does not run") from missing


def parse_version(text: str) -> str:
    """'uv 0.13.9 (…)' → '0.13.9'."""
    match = re.match(r"uv (\d+(?:\.\d+)+\S*)", text)
    if not match:
        raise Failed(f"not uv: {text.strip()[:80]!r}")
    return match[1]
