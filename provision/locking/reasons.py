"""uv's own reason, boiled down: both sides of a conflict, without the steps between them."""

from __future__ import annotations

import re

from provision.errors import ProvisionError
from provision.locking.inputs import Inputs

MOST = 6
"""Steps that are shown whole; of more the first and the last ones are."""
PUBLISHED = re.compile(r"version, v(\S+), was published at (\d{4}-\d\d-\d\d)")


def refusal(where: str, inputs: Inputs, said: str) -> ProvisionError:
    """What a user can act on, from what uv printed."""
    text, *hints = said.strip().split("\n\nhint: ")
    lines = [re.sub(r"^(error|\s*cause): ", "", line).strip() for line in text.splitlines()]
    if "No solution found" not in text:
        return ProvisionError(
            f"{where}: uv could not resolve it: {': '.join(filter(None, lines))}",
            hint="the package index must be reachable; uv's own settings name it",
        )
    steps = _steps(" ".join(lines[1:]))
    what = f"{where} can't be locked: {'; '.join(steps)}"
    for requirement, wheel in inputs.needed_by:
        if requirement in what:
            what += f"; {requirement} is what the wheel {wheel} was built against"
    return ProvisionError(what, hint=_hint(inputs, " ".join(hints)))


def _steps(text: str) -> list[str]:
    """The premises alone: what is concluded from them follows."""
    sentences = re.split(r"(?<=\.)\s+(?=Because |And because )", text)
    steps = [
        re.sub(r"^(And because|Because) ", "", sentence).split(", we can conclude that")[0]
        for sentence in sentences
    ]
    return steps if len(steps) <= MOST else [*steps[:3], "…", *steps[-2:]]


def _hint(inputs: Inputs, said: str) -> str:
    published = PUBLISHED.search(said)
    if published:
        return (
            f"version {published[1]} was published on {published[2]}, "
            f"and the stack reads the index as of {inputs.date}: move its `date`"
        )
    if "was filtered by `exclude-newer`" in said:
        return (
            f"all its versions are from after {inputs.date}, the stack's `date`; "
            "or the index, a mirror, tells no upload times (PEP 700)"
        )
    if "Wheels are required" in said:
        return "nothing is built for a lock: what has no wheel stands in the stack's `wheels`"
    return "change one of the requirements; what can't share an environment gets one of its own"
