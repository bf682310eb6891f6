"""The module in the kernel becomes the one on disk without a restart, while nobody uses the GPUs.

Reads boot, kernel, driver, gpu_users, units, journal. Where it is not possible, `reboot` does it.
"""

from __future__ import annotations

from typing import Any

from provision.facts import Facts, Journal, Unit
from provision.plan import Change, Run, Stage
from provision.resources import persistence, reboot
from provision.resources.known import known
from provision.want import Want

NAME = "reload"
STAGE = Stage.REBOOT
SUBJECT = "nvidia"
MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem")
"""In the order in which they need each other."""
NEEDED = MODULES[:2]
"""What CUDA programs need; the others come back where they were."""


def query(want: Want) -> dict[str, Any]:
    return {}


def plan(want: Want, facts: Facts) -> list[Change]:
    reasons = reboot.reasons(want, facts)
    if not reasons or not _possible(want, facts):
        return []
    version = want.stack.system.driver.version
    loaded = known(facts.kernel, "kernel").loaded
    there = [name for name in MODULES if loaded.get(name) is not None]
    stop, start = _service(facts)
    unload = (Run(argv=("modprobe", "-r", *reversed(there)), timeout=60.0),) if there else ()
    load = [name for name in MODULES if name in there or name in NEEDED]
    return [
        Change(
            resource=NAME,
            subject=SUBJECT,
            stage=STAGE,
            before="; ".join(reasons),
            after=f"module {version}",
            why="no process uses the GPUs: the module can be exchanged without a restart",
            actions=(*stop, *unload, Run(argv=("modprobe", "-a", *load), timeout=120.0), *start),
            makes=reboot.promise(want),
        )
    ]


def _possible(want: Want, facts: Facts) -> bool:
    """Nothing else holds the cards, the kernel that runs has the module, and nobody uses it.

    What failed once in this boot is not tried again: something that the probe can't see holds it.
    """
    kernel = known(facts.kernel, "kernel")
    if any(kernel.loaded.get(rival) is not None for rival in reboot.RIVALS):
        return False
    if isinstance(facts.journal, Journal) and f"{NAME}:{SUBJECT}" in facts.journal.failed:
        return False
    there = kernel.available.get(known(facts.boot, "boot").kernel)
    return there == reboot.module(want) and not reboot.users(facts)


def _service(facts: Facts) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """nvidia-persistenced holds the cards, too: it stops before and starts after."""
    unit = known(facts.units, "units").get(persistence.UNIT)
    if not isinstance(unit, Unit) or unit.active != "active":
        return (), ()
    words = ("stop", "start")
    stop, start = (Run(argv=("systemctl", w, persistence.UNIT), timeout=60.0) for w in words)
    return (stop,), (start,)
