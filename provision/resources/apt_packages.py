"""Packages by apt. Not a resource: the transaction that headers, driver and others share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from provision.facts import Dpkg, Facts, Simulation, Unknown
from provision.plan import Action, Apt, Change, Json, Stage
from provision.resources.known import NotKnown, known

Wanted = Mapping[str, str | None]
"""Package → the exact version, None for any."""

INSTALL = (
    "apt-get",
    "install",
    "--yes",
    "--no-install-recommends",
    "-o",
    "DPkg::Lock::Timeout=600",
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
)
NOT_YET = "?"
"""A version that only apt will tell, when the transaction's round comes."""


def missing(wanted: Wanted, dpkg: Dpkg) -> dict[str, str | None]:
    """What of the wanted is not installed, or in another version."""
    return {name: version for name, version in wanted.items() if not _right(dpkg, name, version)}


def packages_change(
    resource: str,
    stage: Stage,
    facts: Facts,
    *,
    subject: str,
    wanted: Wanted,
    why: str,
    then: tuple[Action, ...] = (),
    makes: Json | None = None,
) -> list[Change]:
    """The change that installs what is missing; [] when nothing is.

    Raises NotKnown with apt's own words when it refuses the transaction.
    """
    dpkg = known(facts.dpkg, "dpkg")
    lacking = missing(wanted, dpkg)
    if not lacking:
        return []
    _available(lacking, facts)
    apt = Apt(argv=_argv(lacking, dpkg))
    said = _simulation(facts, apt)
    if said:
        apt = Apt(argv=apt.argv, install=said.install, remove=said.remove)
    return [
        Change(
            resource=resource,
            subject=subject,
            stage=stage,
            before=", ".join(f"{name} {_now(dpkg, name)}" for name in lacking),
            after=", ".join(f"{name} {_then(name, lacking, said)}" for name in lacking),
            why=why,
            actions=(apt, *then),
            makes={
                **(makes or {}),
                "dpkg": {
                    "packages": {
                        **{
                            name: {
                                "version": _then(name, lacking, said),
                                "status": "installed",
                                "hold": False,
                            }
                            for name in lacking
                        },
                        **dict.fromkeys(apt.remove),
                    }
                },
            },
        )
    ]


def _right(dpkg: Dpkg, name: str, version: str | None) -> bool:
    package = dpkg.packages.get(name)
    if package is None or package.status != "installed":
        return False
    return version in (None, NOT_YET, package.version)


def _now(dpkg: Dpkg, name: str) -> str:
    package = dpkg.packages.get(name)
    return package.version if package and package.status == "installed" else "absent"


def _then(name: str, lacking: Wanted, said: Simulation | None) -> str:
    simulated = said.install.get(name) if said else None
    return lacking[name] or (simulated[1] if simulated else None) or NOT_YET


def _argv(lacking: Wanted, dpkg: Dpkg) -> tuple[str, ...]:
    moved = any(_now(dpkg, name) != "absent" for name in lacking)
    options = ("--allow-downgrades",) if moved else ()
    names = (name if version is None else f"{name}={version}" for name, version in lacking.items())
    return (*INSTALL, *options, *names)


def _available(lacking: Wanted, facts: Facts) -> None:
    """Raise NotKnown when an index that was read lacks an exact version."""
    policy = known(facts.apt, "apt").policy
    for name, version in lacking.items():
        offered: dict[str, Any] = dict(policy[name].versions) if name in policy else {}
        if version is not None and version not in offered:
            raise NotKnown(
                f"{name} {version} is not in any source's index",
                subject=name,
                hint=f"the sources offer {', '.join(offered) or 'no version of it'}",
            )


def _simulation(facts: Facts, apt: Apt) -> Simulation | None:
    if isinstance(facts.simulations, Unknown):
        raise NotKnown(f"simulations: {facts.simulations.reason}", subject="simulations")
    said = facts.simulations.get(apt.key) if isinstance(facts.simulations, dict) else None
    if said and said.error:
        raise NotKnown(f"apt refuses: {said.error}", subject=" ".join(apt.argv[len(INSTALL) :]))
    return said
