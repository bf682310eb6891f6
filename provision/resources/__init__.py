"""The nouns of a host, one per file, in the order in which they are brought about."""

from __future__ import annotations

from typing import Any, Protocol

from provision.facts import Facts
from provision.plan import Change, Stage
from provision.resources import (
    apt_index,
    apt_pins,
    apt_source,
    cloud_init,
    compilers,
    dpkg,
    driver,
    environment,
    headers,
    holds,
    nouveau,
    persistence,
    preflight,
    reboot,
    reload,
    site,
    toolkits,
    unattended,
    unfinished,
    uv,
)
from provision.want import Want


class Resource(Protocol):
    """A module of this folder."""

    NAME: str
    STAGE: Stage

    def query(self, want: Want) -> dict[str, Any]:
        """What the probe must look at for this resource."""

    def plan(self, want: Want, facts: Facts) -> list[Change]:
        """What differs; [] when nothing does. Raises NotKnown when that can't be told."""


ORDER: tuple[Resource, ...] = (
    preflight,
    cloud_init,
    dpkg,
    site,
    apt_source,
    apt_pins,
    unattended,
    nouveau,
    apt_index,
    unfinished,
    holds,
    headers,
    driver,
    toolkits,
    compilers,
    reload,
    reboot,
    persistence,
    uv,
    environment,
)

QUERY: dict[str, Any] = {
    "packages": [],
    "policy": [],
    "files": [],
    "units": ["nvidia-fabricmanager.service", "docker.service", "containerd.service"],
    "environments": {},
    "uv": [],
    "compilers": ["gcc", "g++", "make"],
    "mounts": ["/", "/boot", "/var", "/opt"],
}
"""What is asked of every host."""


def query(want: Want) -> dict[str, Any]:
    """The probe's question: what every resource needs to see, each thing once."""
    asked = {name: value.copy() for name, value in QUERY.items()}
    for resource in ORDER:
        for name, value in resource.query(want).items():
            if isinstance(value, dict):
                asked[name].update(value)
            else:
                asked[name].extend(item for item in value if item not in asked[name])
    return asked
