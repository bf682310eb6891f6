"""The uv executable: out of the wheel of the version this project depends on. Reads os, uv."""

from __future__ import annotations

from typing import Any

from provision import TOOL
from provision.facts import Facts
from provision.plan import Change, Stage, Unpack
from provision.resources.known import NotKnown, known
from provision.want import Want

NAME = "uv"
STAGE = Stage.RUNTIME


def query(want: Want) -> dict[str, Any]:
    return {"uv": [path(want)]}


def path(want: Want) -> str:
    """Where the host's uv stands."""
    return f"/opt/{TOOL}/uv/{want.uv.version}/uv"


def plan(want: Want, facts: Facts) -> list[Change]:
    if not want.stack.environment:
        return []
    arch = known(facts.os, "os").arch
    wheel = dict(want.uv.wheels).get(arch)  # type: ignore[call-overload]
    if wheel is None:
        raise NotKnown(f"no uv wheel is known for {arch}", subject=arch)
    there = known(facts.uv, "uv").get(path(want))
    if there == want.uv.version:
        return []
    return [
        Change(
            resource=NAME,
            subject=want.uv.version,
            stage=STAGE,
            before=there or "no file",
            after=want.uv.version,
            why="environments are made by the uv that locked them",
            actions=(
                Unpack(
                    wheel=wheel,
                    member=f"uv-{want.uv.version}.data/scripts/uv",
                    path=path(want),
                ),
            ),
            makes={"uv": {path(want): want.uv.version}},
        )
    ]
