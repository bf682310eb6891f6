"""The errors a user meets. Each has an exit code; each says what, where, what was expected.

ProvisionError            1  the work failed
├── TransportError        1  the host can't be reached, or the connection broke
│   └── AccessError       1  it answers, and refuses us
│       └── HostKeyError  1  what answers is not known to be the host
└── UsageError            2  wrong option, inventory, stack or plan file
"""

from __future__ import annotations

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
