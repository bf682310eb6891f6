"""The module in the kernel is the one on disk; if not, the host restarts.

Reads boot, kernel, driver. It never restarts into a kernel that lacks the module.
"""

from __future__ import annotations

from typing import Any

from provision.facts import Driver, Facts, Kernel
from provision.plan import Change, Reboot, Stage
from provision.resources import headers
from provision.resources.known import NotKnown, known
from provision.want import Want

NAME = "reboot"
STAGE = Stage.REBOOT
RIVALS = ("nouveau", "nova_core")
"""Modules that hold the cards instead of ours."""


def query(want: Want) -> dict[str, Any]:
    return {}


def plan(want: Want, facts: Facts) -> list[Change]:
    boot = known(facts.boot, "boot")
    kernel = known(facts.kernel, "kernel")
    driver = known(facts.driver, "driver")
    version = want.stack.system.driver.version
    flavour = "open" if want.stack.system.driver.open else "proprietary"
    reasons = _reasons(kernel, driver, version, flavour)
    if not reasons:
        return []
    following = headers.kernels(boot)[-1]
    there = kernel.available.get(following)
    if there is None or there.version != version:
        raise NotKnown(
            f"kernel {following}, which the next boot takes, has no nvidia module {version}",
            subject=following,
            hint="see `dkms status` and the make.log that it names",
        )
    loaded = {"nvidia": version, **dict.fromkeys(RIVALS)}
    return [
        Change(
            resource=NAME,
            subject="host",
            stage=STAGE,
            before="; ".join(reasons),
            after=f"kernel {following} with module {version}",
            why="a module that is in use can't be exchanged",
            actions=(Reboot(),),
            makes={
                "boot": {"kernel": following},
                "kernel": {"loaded": loaded},
                "driver": {"loaded": version, "flavour": flavour},
                "nvml": {"exit": 0, "message": "", "driver": version},
            },
        )
    ]


def _reasons(kernel: Kernel, driver: Driver, version: str, flavour: str) -> list[str]:
    reasons = [f"{rival} is loaded" for rival in RIVALS if kernel.loaded.get(rival) is not None]
    if driver.loaded is None:
        reasons.append("no nvidia module loaded")
    elif (driver.loaded, driver.flavour) != (version, flavour):
        reasons.append(f"module {driver.loaded} ({driver.flavour}) loaded")
    return reasons
