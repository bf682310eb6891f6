"""The errors a user meets. Each has an exit code; each says what, where, what was expected.

ProvisionError            1  the work failed
├── TransportError        1  the host can't be reached, or the connection broke
│   └── AccessError       1  it answers, and refuses us
│       └── HostKeyError  1  what answers is not known to be the host
└── UsageError            2  wrong option, inventory, stack or plan file
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence

from provision.remote.masked import masked

DONE = 0
FAILED = 1
USAGE = 2
DIFFERENCES = 3
INTERRUPTED = 130


class ProvisionError(Exception):
    """One message for the user: `what` happened, and a `hint` that says what to do."""

    exit_code = FAILED

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class TransportError(ProvisionError):
    """The host can't be reached, refuses us, or the connection broke."""


class AccessError(TransportError):
    """The host answers, and does not let us do this: trying again changes nothing."""


class HostKeyError(AccessError):
    """What answers has another key than the host, or one that nobody vouched for."""


class UsageError(ProvisionError):
    """The user's input is wrong; nothing was touched."""

    exit_code = USAGE


BRIEF = 80
"""Characters of a wrong value that a message repeats."""
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = BRIEF


def shown(value: object) -> str:
    """A wrong value as a message has it: in one line, cut short, without a URL's password."""
    try:
        return _repr.repr(masked(value) if isinstance(value, str) else value)[:BRIEF]
    except ValueError:  # Python writes no number of more than 4300 digits
        return "an endless number"


def dotted(path: Sequence[object]) -> str:
    """Where a value stands, such as `hosts.a.gpus.count`: in one line, whatever its keys are."""
    return ".".join(_part(part) for part in path)


def _part(part: object) -> str:
    plain = isinstance(part, str) and part.isprintable()
    return str(part)[:BRIEF] if plain else shown(part)
