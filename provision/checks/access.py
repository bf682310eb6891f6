"""How programs get at the GPUs: device files, and containers' way to them."""

from __future__ import annotations

from provision.checks.cards import cards
from provision.checks.finding import Action, Finding, judge, unknown, unseen
from provision.facts import Dpkg, Facts
from provision.want import Want

CONTROL = ("nvidiactl", "nvidia-uvm")
ENGINES = ("docker.service", "containerd.service")
TOOLKIT = "nvidia-container-toolkit"


def check(want: Want, facts: Facts) -> list[Finding]:
    return [*_files(want, facts), *_containers(facts)]


def _files(want: Want, facts: Facts) -> list[Finding]:
    if not isinstance(facts.device_files, list):
        reason = unseen(facts.device_files)
        return [unknown("device_file", "host", expected="there", reason=reason)]
    wanted = dict.fromkeys(CONTROL, "nvidia-modprobe -c0 -u") | {
        f"nvidia{card.gpu.minor}": f"nvidia-modprobe -c {card.gpu.minor}"
        for card in cards(want, facts)
        if card.gpu.minor is not None
    }
    return [
        judge(
            "device_file",
            f"/dev/{name}",
            name in facts.device_files,
            expected="there",
            observed="there" if name in facts.device_files else "missing",
            action=Action.RESTART,
            reason=f"{make}, then restart nvidia-persistenced",
            noun="is",
        )
        for name, make in wanted.items()
    ]


def _containers(facts: Facts) -> list[Finding]:
    """Only where a container engine runs."""
    units = facts.units if isinstance(facts.units, dict) else {}
    running = [name for name in ENGINES if (unit := units.get(name)) and unit.active == "active"]
    if not running:
        return []
    if not isinstance(facts.dpkg, Dpkg):
        return [unknown("containers", TOOLKIT, expected="installed", reason=unseen(facts.dpkg))]
    package = facts.dpkg.packages.get(TOOLKIT)
    there = bool(package and package.status == "installed")
    return [
        judge(
            "containers",
            TOOLKIT,
            there,
            expected="installed",
            observed="installed" if there else "not installed",
            action=Action.INSPECT,
            reason=f"{running[0]} runs, and its containers get no GPU: install it from NVIDIA's "
            "libnvidia-container repository",
            noun="is",
        )
    ]
