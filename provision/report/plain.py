"""What a host says, made fit to be printed: no escapes, no forged lines, no secrets.

A terminal obeys what is printed to it: a host that is not ours any more could move the cursor,
rewrite lines that were shown before, or type into the user's shell.
"""

from __future__ import annotations

import re

from provision.remote.masked import masked

CONTROL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""C0 but the tab, DEL, C1; what turns the direction of writing or breaks lines; surrogates."""
PICTURES = 0x2400
"""Unicode's block of pictures of the C0 controls, in their order."""


def plain(text: str) -> str:
    """One line as it may be printed; a control character becomes its picture, such as ␛."""
    return CONTROL.sub(_picture, masked(text))


def plain_json(text: str) -> str:
    """JSON as it may be printed: `json.dumps` itself leaves what comes behind ASCII as it is."""
    return CONTROL.sub(_escape, masked(text))


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(PICTURES + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


def _escape(found: re.Match[str]) -> str:
    return found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}"
