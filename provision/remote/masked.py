"""Text of other programs without the passwords that stand in URLs.

A host's own configuration may have some, such as apt sources behind a login; their programs
repeat them when they fail.
"""

from __future__ import annotations

import re

USERINFO = re.compile(r"(?<=//)[^/\s\"'<>]+@")
"""User and password of a URL (RFC 3986, 3.2.1), up to the last @: some write one unescaped."""


def masked(text: str) -> str:
    """`https://user:secret@host/` becomes `https://…@host/`."""
    return USERINFO.sub("…@", text)
