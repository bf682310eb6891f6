"""A file of ours on the host, told apart by its hash. Not a resource: what some of them share."""

from __future__ import annotations

import hashlib

from provision.facts import DIRECTORY, Facts, File
from provision.plan import Action, Change, Remove, Stage, Write
from provision.resources.known import NotKnown, known

MODE = 0o644


def file_change(
    resource: str,
    stage: Stage,
    facts: Facts,
    *,
    path: str,
    content: str | None,
    why: str,
    then: tuple[Action, ...] = (),
) -> list[Change]:
    """The change that gives the file its content (None: takes it away) and runs `then`.

    [] when it is so already.
    """
    there = known(facts.files, "files").get(path)
    wanted = None
    if content is not None:
        wanted = File(sha256=hashlib.sha256(content.encode()).hexdigest(), mode=MODE)
    if there == wanted:
        return []
    if there and there.sha256 == DIRECTORY:
        raise NotKnown(
            f"{path} is a directory",
            subject=path,
            hint="move it away: a file of ours belongs there",
        )
    put = Remove(path=path) if content is None else Write(path=path, content=content, mode=MODE)
    return [
        Change(
            resource=resource,
            subject=path,
            stage=stage,
            before=_state(there),
            after=_state(wanted),
            why=why if wanted else "the inventory no longer asks for it",
            actions=(put, *then),
            makes={
                "files": {path: {"sha256": wanted.sha256, "mode": MODE} if wanted else None},
                # one that apt can't read may be why apt knows nothing at all
                **({"apt": {"error": None}} if path.startswith("/etc/apt/") else {}),
            },
        )
    ]


def _state(file: File | None) -> str:
    return f"{file.sha256[:12]} {file.mode:04o}" if file else "no file"
