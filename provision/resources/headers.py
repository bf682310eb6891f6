"""Headers of the running kernel and of the next one. Reads boot, dpkg.

DKMS builds for the kernels whose headers it finds; the next boot may take another kernel.
"""

from __future__ import annotations

import re
from typing import Any

from provision.errors import shown
from provision.facts import Boot, Facts
from provision.plan import Change, Stage
from provision.resources.apt_packages import packages_change
from provision.resources.known import NotKnown, known
from provision.want import Want

NAME = "headers"
STAGE = Stage.PACKAGES
RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*(?<!-)")
"""What can stand in a package's name; apt would remove one whose name ends with a dash."""


def query(want: Want) -> dict[str, Any]:
    return {}


def kernels(boot: Boot) -> list[str]:
    """The running kernel and the next one, each once.

    Raises NotKnown for one that no package can be named after.
    """
    found = [boot.kernel, *([boot.next_kernel] if boot.next_kernel else [])]
    for kernel in found:
        if not RELEASE.fullmatch(kernel):
            raise NotKnown(
                f"kernel {shown(kernel)} has a name that no package of headers can have",
                subject="kernel",
                hint="see: uname -r; ls /boot",
            )
    return list(dict.fromkeys(found))


def expected(want: Want, facts: Facts) -> dict[str, str | None]:
    """Package → any version."""
    return {f"linux-headers-{k}": None for k in kernels(known(facts.boot, "boot"))}


def plan(want: Want, facts: Facts) -> list[Change]:
    wanted = expected(want, facts)
    return packages_change(
        NAME,
        STAGE,
        facts,
        subject=", ".join(name.removeprefix("linux-headers-") for name in wanted),
        wanted=wanted,
        why="the driver's module is built for the running kernel and for the next boot's",
    )
