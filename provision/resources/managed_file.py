"""A file of ours under /etc, told apart by its hash. Not a resource: what some of them share."""

from __future__ import annotations

import hashlib

from provision.facts import Facts
from provision.plan import Action, Change, Stage, Write
from provision.resources.known import known

MODE = 0o644


def file_change(
    resource: str,
    stage: Stage,
    facts: Facts,
    *,
    path: str,
    content: str,
    why: str,
    then: tuple[Action, ...] = (),
) -> list[Change]:
    """The change that gives the file its content and runs `then`; [] when it has it."""
    digest = hashlib.sha256(content.encode()).hexdigest()
    there = known(facts.files, "files").get(path)
    if there and there.sha256 == digest and there.mode == MODE:
        return []
    return [
        Change(
            resource=resource,
            subject=path,
            stage=stage,
            before=_state(there.sha256 if there else None, there.mode if there else None),
            after=_state(digest, MODE),
            why=why,
            actions=(Write(path=path, content=content, mode=MODE), *then),
            makes={"files": {path: {"sha256": digest, "mode": MODE}}},
        )
    ]


def _state(digest: str | None, mode: int | None) -> str:
    return "no file" if digest is None or mode is None else f"{digest[:12]} {mode:04o}"
