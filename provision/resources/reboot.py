"""The module in the kernel is the one on disk; where it can't be exchanged, the host restarts.

Reads boot, kernel, driver, gpu_users, disks. It never restarts into a kernel that lacks the
module, while somebody forbids it, or where the initramfs may be cut short.
"""

from __future__ import annotations

from typing import Any

from provision.facts import Boot, Disk, Facts, GpuUser, Module
from provision.plan import Change, Json, Reboot, Run, Stage
from provision.promises import UNSEEN
from provision.resources import driver, headers, persistence
from provision.resources.known import NotKnown, known
from provision.want import Want

NAME = "reboot"
STAGE = Stage.REBOOT
RIVALS = ("nouveau", "nova_core")
"""Modules that hold the cards instead of ours."""
BOOT_ROOM = 32 * 2**20
"""Bytes: with less left in /boot, the last initramfs may not have been written whole."""
STOP_PATIENCE = 300.0
"""Seconds that a service on the GPUs gets to stop by itself."""


def query(want: Want) -> dict[str, Any]:
    return {}


def plan(want: Want, facts: Facts) -> list[Change]:
    why = reasons(want, facts)
    if not why:
        return []
    boot = known(facts.boot, "boot")
    version = want.stack.system.driver.version
    following = headers.kernels(boot)[-1]
    there = known(facts.kernel, "kernel").available.get(following)
    if there is None or there.version != version:
        raise NotKnown(
            f"kernel {following}, which the next boot takes, has no nvidia module {version}",
            subject=following,
            hint="see `dkms status` and the make.log that it names",
        )
    _safe(boot, known(facts.disks, "disks").get("/boot"))
    using = users(facts)
    named = ", ".join(f"{one.name} (pid {one.pid})" for one in using)
    services = dict.fromkeys(u.unit for u in using if u.unit and _service(u.unit))
    return [
        Change(
            resource=NAME,
            subject="host",
            stage=STAGE,
            before="; ".join([*why, *([f"the GPUs are used by {named}"] if using else [])]),
            after=f"kernel {following} with module {version}",
            why="a module that is in use can't be exchanged",
            actions=(
                *(
                    Run(argv=("systemctl", "stop", "--", unit), timeout=STOP_PATIENCE)
                    for unit in services
                ),
                Reboot(),
            ),
            makes=promise(want) | {"boot": {"kernel": following}, "gpu_users": []},
        )
    ]


def _service(unit: str) -> bool:
    """A service of the host; a user's session ends with the restart."""
    return unit.endswith(".service") and not unit.startswith("user@")


def reasons(want: Want, facts: Facts) -> list[str]:
    """Why the module in the kernel is not right; [] when it is."""
    kernel, there = known(facts.kernel, "kernel"), known(facts.driver, "driver")
    wanted = want.stack.system.driver
    found = [f"{rival} is loaded" for rival in RIVALS if kernel.loaded.get(rival) is not None]
    flavour = _flavour(want)
    if there.loaded is None:
        found.append("no nvidia module loaded")
    elif (there.loaded, there.flavour) != (wanted.version, flavour):
        found.append(f"module {there.loaded} ({there.flavour}) loaded")
    return found


def module(want: Want) -> Module:
    """The module as modinfo must show it."""
    wanted = want.stack.system.driver
    return Module(version=wanted.version, license=driver.LICENSE[wanted.open])


def users(facts: Facts) -> list[GpuUser]:
    """Processes on the GPUs, but for the daemon that is ours to stop."""
    return [u for u in known(facts.gpu_users, "gpu_users") if u.unit != persistence.UNIT]


def promise(want: Want) -> dict[str, Json]:
    """What is so with the right module in the kernel."""
    version = want.stack.system.driver.version
    return {
        "kernel": {"loaded": {"nvidia": version, **dict.fromkeys(RIVALS)}},
        "driver": {"loaded": version, "flavour": _flavour(want)},
        "nvml": {"exit": 0, "message": "", "driver": version, "cuda": UNSEEN},
    }


def _flavour(want: Want) -> str:
    return "open" if want.stack.system.driver.open else "proprietary"


def _safe(boot: Boot, disk: Disk | None) -> None:
    """Raise NotKnown where a restart would be refused, or might not end in a boot."""
    if boot.inhibitors:
        raise NotKnown(
            f"a restart is forbidden by {', '.join(boot.inhibitors)}",
            subject="host",
            hint="let that end, or end it: systemd-inhibit --list",
        )
    if disk and disk.free < BOOT_ROOM:
        raise NotKnown(
            f"/boot has {disk.free / 2**20:.0f} MiB free: the initramfs may be cut short, "
            "and the host would not come back",
            subject="/boot",
            hint="make space there (apt-get autoremove takes old kernels), then "
            "update-initramfs -u -k all",
        )
