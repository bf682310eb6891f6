"""Packages whose installation was cut short, whoever they belong to. Reads dpkg.

apt installs nothing else until they are whole. They come from the sources, so those are right
before.
"""

from __future__ import annotations

from typing import Any

from provision.facts import Facts
from provision.plan import Change, Stage
from provision.promises import UNSEEN
from provision.resources.apt_packages import INSTALL, asked, holding
from provision.resources.dpkg import cut_short, unconfigured
from provision.resources.known import known
from provision.want import Want

NAME = "unfinished"
STAGE = Stage.REPAIR


def query(want: Want) -> dict[str, Any]:
    return {}


def plan(want: Want, facts: Facts) -> list[Change]:
    dpkg = known(facts.dpkg, "dpkg")
    names = cut_short(dpkg)
    if not names:
        return []
    packages = {name: p for name in names if (p := dpkg.packages[name])}
    torn = [name for name, p in packages.items() if p.status != "unpacked" or p.reinstreq]
    held = any(package.hold for package in packages.values())
    options = (
        "--fix-broken",  # what an unpacked one depends on may not be there at all
        *(("--allow-change-held-packages",) if held else ()),
        *(("--reinstall", *torn) if torn else ()),
    )
    apt = asked(facts, (*INSTALL, *options))
    moved = {**packages, **(apt.install or {})}
    noted, again = holding([n for n in moved if (p := dpkg.packages.get(n)) and p.hold])
    then = {name: new for name, (_, new) in (apt.install or {}).items()}
    whole = {
        name: {
            "status": "installed",
            "reinstreq": False,
            "version": then.get(name) or package.version or UNSEEN,
        }
        for name, package in packages.items()
    }
    configured = {name: {"status": "installed"} for name in unconfigured(dpkg)}
    return [
        Change(
            resource=NAME,
            subject=", ".join(names),
            stage=STAGE,
            before=", ".join(f"{name} {package.status}" for name, package in packages.items()),
            after=", ".join(f"{name} {package['version']}" for name, package in whole.items()),
            why="dpkg was killed while it unpacked them; apt installs nothing beside that",
            actions=(*noted, apt, *again),
            makes={"dpkg": {"packages": configured | whole | dict.fromkeys(apt.remove)}},
        )
    ]
