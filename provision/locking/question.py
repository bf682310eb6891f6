"""What is asked of uv for one environment and one Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from provision.locking.inputs import ARCH, Inputs
from provision.locking.text import Pin

REQUIREMENTS = "requirements.in"
RESULT = "lock.txt"
"""uv prefers the versions that this file has when it is asked, and replaces it."""


def arguments(inputs: Inputs, python: str) -> tuple[str, ...]:
    """uv's words, for a folder that holds both files.

    Nothing is built, and nothing outside the folder has a say but the index.
    """
    end = inputs.date + timedelta(days=1)  # a plain date would mean the user's own time zone
    return (
        *("pip", "compile", REQUIREMENTS, "--output-file", RESULT),
        *("--generate-hashes", "--no-header", "--no-annotate", "--only-binary", ":all:"),
        *("--exclude-newer", f"{end.isoformat()}T00:00:00Z"),
        *("--python-version", python, "--python-platform", f"{ARCH}-{inputs.platform}"),
        *("--quiet", "--color", "never"),
    )


def preferred(
    locked: Iterable[Pin], found: Mapping[str, Iterable[Pin]], python: str
) -> dict[str, str]:
    """Distribution → the version that uv shall keep to where it can.

    What the lock has for this Python; else what was found for the Pythons before, so that few
    distributions differ from one Python to another.
    """
    before = {pin.name: pin.version for pins in found.values() for pin in pins}
    return before | {pin.name: pin.version for pin in locked if pin.applies(python)}
