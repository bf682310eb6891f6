"""Switches off apt sources in a file's text, and leaves everything else as it is."""

from __future__ import annotations

import re

LINE = re.compile(r"\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s*)?(\S+)")
MARK = "# switched off by firstlight: "


def disable_lines(text: str, uri: str) -> str:
    """One-line sources (`deb [options] URI suite …`) that name the URI become comments."""
    return "".join(
        MARK + line if (found := LINE.match(line)) and _same(found[1], uri) else line
        for line in text.splitlines(keepends=True)
    )


def disable_deb822(text: str, uri: str) -> str:
    """Stanzas whose only URI it is get `Enabled: no`.

    Raises ValueError when a stanza names other URIs beside it: those would go off, too.
    """
    stanzas = re.split(r"(\n(?:[ \t]*\n)+)", text)
    return "".join(_off(stanza) if _names(stanza, uri) else stanza for stanza in stanzas)


def _names(stanza: str, uri: str) -> bool:
    field = re.search(r"^URIs:[ \t]*(.*(?:\n[ \t].*)*)", stanza, re.MULTILINE | re.IGNORECASE)
    uris = field[1].split() if field else []
    if not any(_same(one, uri) for one in uris):
        return False
    if len(uris) > 1:
        raise ValueError(f"a stanza names {uri} beside other URIs: split it by hand")
    return True


def _off(stanza: str) -> str:
    without = re.sub(r"^Enabled:.*\n?", "", stanza, flags=re.MULTILINE | re.IGNORECASE)
    return f"Enabled: no\n{without.lstrip()}"


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")
