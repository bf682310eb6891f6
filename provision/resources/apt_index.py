"""apt's index: fetched when what is missing is not in it. Reads apt, dpkg."""

from __future__ import annotations

from typing import Any

from provision.facts import Apt, Facts
from provision.plan import Change, Index, Stage
from provision.promises import UNSEEN
from provision.resources import apt_packages, apt_source, compilers, driver, headers, toolkits
from provision.resources.known import NotKnown, known
from provision.want import Want

NAME = "apt_index"
STAGE = Stage.SOURCES
UPDATE = ("apt-get", "update", "-o", "APT::Update::Error-Mode=any")
"""Without that mode apt-get update exits 0 on a tampered InRelease when old lists exist."""


def query(want: Want) -> dict[str, Any]:
    return {}


def _offered(apt: Apt, name: str, version: str | None) -> bool:
    policy = apt.policy.get(name)
    if policy is None:
        return False
    return policy.candidate is not None if version is None else version in policy.versions


def plan(want: Want, facts: Facts) -> list[Change]:
    apt = known(facts.apt, "apt")
    wanted = {
        name: version
        for resource in (headers, driver, toolkits, compilers)
        for name, version in resource.expected(want, facts).items()
    }
    if apt.error:
        raise NotKnown(
            f"apt can't read its configuration: {apt.error}",
            subject="configuration",
            hint="mend the file that apt names; see: apt-cache policy",
        )
    wanted |= driver.strays(want, facts)[0]
    lacking = apt_packages.missing(wanted, known(facts.dpkg, "dpkg"))
    unseen = [
        name
        for name, version in lacking.items()
        if not _offered(apt, name, version) and not apt_packages.kept(facts, name, version)
    ]
    read = all(apt.fresh.get(uri) for uri in apt.sources)
    if not unseen or read:
        return []
    repository = apt_source.repository(want, known(facts.os, "os")).url.rstrip("/")
    unwatched = headers.expected(want, facts)  # which kernels there are the probe is not told
    return [
        Change(
            resource=NAME,
            subject="index",
            stage=STAGE,
            before=f"lacks {', '.join(unseen)}",
            after="fetched",
            why="what is missing must be found first",
            actions=(Index(argv=UPDATE),),
            makes={
                "apt": {
                    "fresh": dict.fromkeys(apt.sources, True),
                    "policy": {
                        name: {
                            "candidate": version or UNSEEN,
                            "versions": {version: repository} if version else {},
                        }
                        for name, version in lacking.items()
                        if name in unseen and name not in unwatched
                    },
                }
            },
        )
    ]
