"""How each GPU does: memory errors, throttling, its link's replays, and whether it is stuck.

Figures: NVIDIA GPU Memory Error Management (row remapping), NVIDIA's DCGM health checks (retired
pages, replays), Azure's node health checks (slowdowns).
"""

from __future__ import annotations

from provision.checks.cards import Card, cards
from provision.checks.finding import Action, Finding, judge
from provision.facts import Boot, Facts
from provision.want import Want

REMAPS = 512
"""Rows that a GPU can remap in its life: NVIDIA GPU Memory Error Management."""
PAGES_SOFT, PAGES_HARD = 15, 63
"""Retired pages at which DCGM warns, and at which it gives a card up."""
REPLAYS = 1.92
"""A minute and lane that a Gen5 link may have: DCGM's health check of PCIe."""
STUCK = 90
"""Percent of utilisation that nobody causes: seen after collective operations that hang."""
PERSISTENCED = "nvidia-persiste"
IDLERS = frozenset(
    {PERSISTENCED, "nv-hostengine", "dcgm-exporter", "nvidia-smi", "nv-fabricmanage"}
)
"""Hold GPUs open and compute nothing; names as the kernel cuts them, at 15 characters."""
RECOVERY = {
    "GPU Reset": Action.RESET,
    "Reset": Action.RESET,
    "Node Reboot": Action.REBOOT,
    "Reboot": Action.REBOOT,
    "Drain P2P": Action.RESET,
    "Drain and Reset": Action.RESET,
}
"""The driver's own advice (nvmlDeviceGpuRecoveryAction_t), in nvidia-smi's words."""
SLOWDOWNS = {
    "hw_slowdown": (Action.INSPECT, "hardware"),
    "hw_thermal_slowdown": (Action.INSPECT, "heat, by hardware"),
    "hw_power_brake_slowdown": (Action.INSPECT, "the power supply's brake"),
    "sw_thermal_slowdown": (Action.IGNORE, "heat, by the driver"),
    "sw_power_cap": (Action.IGNORE, "its power limit"),
}


def check(want: Want, facts: Facts) -> list[Finding]:
    users = facts.gpu_users if isinstance(facts.gpu_users, list) else []
    working = any(user.name not in IDLERS for user in users)
    held = any(user.name == PERSISTENCED for user in users)
    minutes = facts.boot.uptime / 60 if isinstance(facts.boot, Boot) else None
    rows = []
    for card in cards(want, facts):
        rows += [_persistence(card, held=held), *_memory(card), *_advice(card)]
        rows += [_stuck(card, working=working), *_slowdown(card), *_replays(card, minutes)]
    return rows


def _persistence(card: Card, *, held: bool) -> Finding:
    """In effect, whatever NVML says: the daemon's open device files keep the GPU awake, too."""
    return judge(
        "gpu.persistence",
        card.subject,
        card.gpu.persistence is True or held,
        expected="on",
        observed="on" if card.gpu.persistence or held else "off",
        action=Action.RESTART,
        reason="nvidia-persistenced does not hold this GPU",
    )


def _memory(card: Card) -> list[Finding]:
    """A model without ECC has none of these."""
    gpu = card.gpu
    rows: list[tuple[str, str, int | bool | None, Action, str]] = [
        (
            *("gpu.ecc_uncorrectable", "uncorrectable errors", gpu.ecc_uncorrectable),
            *(Action.RESET, "since the driver was loaded; when they return, replace the card"),
        ),
        (
            *("gpu.ecc_sram", "uncorrectable errors of its SRAM", gpu.ecc_uncorrectable_ever),
            *(Action.INSPECT, "nothing remaps them: the card is to be replaced when they return"),
        ),
        (
            *("gpu.sram_threshold", "too many SRAM errors", gpu.sram_threshold_exceeded),
            *(Action.INSPECT, "more than NVIDIA allows: replace the card"),
        ),
        (
            *("gpu.remap_pending", "pending row remap", gpu.remap_pending),
            *(Action.RESET, "it takes place when the GPU is reset"),
        ),
        (
            *("gpu.remap_failure", "failed row remap", gpu.remap_failure),
            *(Action.INSPECT, "NVIDIA replaces such cards"),
        ),
        (
            *("gpu.retirement_pending", "pending page retirement", gpu.retirement_pending),
            *(Action.RESET, "it takes place when the GPU is reset"),
        ),
    ]
    found = [
        judge(
            name,
            card.subject,
            not seen,
            expected=type(seen)(),  # 0 or no
            observed=seen,
            action=action,
            reason=reason,
            noun=noun,
        )
        for name, noun, seen, action, reason in rows
        if seen is not None
    ]
    return [*found, *_worn(card)]


def _worn(card: Card) -> list[Finding]:
    gpu, rows = card.gpu, []
    if gpu.remap_uncorrectable is not None:
        rows.append(
            judge(
                "gpu.remaps",
                card.subject,
                gpu.remap_uncorrectable <= REMAPS,
                expected=f"at most {REMAPS}",
                observed=gpu.remap_uncorrectable,
                action=Action.INSPECT,
                reason="no rows are left to remap to: replace the card",
                noun="remapped rows",
            )
        )
    if gpu.retired_pages is not None:
        hard = gpu.retired_pages >= PAGES_HARD
        rows.append(
            judge(
                "gpu.retired_pages",
                card.subject,
                gpu.retired_pages <= PAGES_SOFT,
                expected=f"at most {PAGES_SOFT}",
                observed=gpu.retired_pages,
                action=Action.INSPECT if hard else Action.IGNORE,
                reason=f"{PAGES_HARD} are the end of a card",
            )
        )
    return rows


def _advice(card: Card) -> list[Finding]:
    """Older drivers give none."""
    said = card.gpu.recovery_action
    if said is None:
        return []
    return [
        judge(
            "gpu.recovery_action",
            card.subject,
            said == "None",
            expected="None",
            observed=said,
            action=RECOVERY.get(said, Action.INSPECT),
            reason="the driver itself asks for it",
        )
    ]


def _stuck(card: Card, *, working: bool) -> Finding:
    gpu = card.gpu
    idle = not gpu.processes and not working
    stuck = idle and (gpu.utilisation or 0) >= STUCK
    return judge(
        "gpu.stuck",
        card.subject,
        not stuck,
        expected="idle without a process",
        observed=f"{gpu.utilisation} % busy without a process" if stuck else "not stuck",
        action=Action.RESET,
        reason="wedged, as after a collective operation that hung: when a reset is refused, reboot",
        noun="is",
    )


def _slowdown(card: Card) -> list[Finding]:
    if card.gpu.slowdowns is None:
        return []
    known = [SLOWDOWNS[name] for name in card.gpu.slowdowns if name in SLOWDOWNS]
    action = Action.INSPECT if (Action.INSPECT in dict(known)) else Action.IGNORE
    return [
        judge(
            "gpu.slowdown",
            card.subject,
            not card.gpu.slowdowns,
            expected="full clocks",
            observed="full clocks"
            if not known
            else f"held back by {', '.join(what for _, what in known)}",
            action=action,
            reason="cooling, power supply and cables"
            if action is Action.INSPECT
            else "as it should be under full load",
            noun="clocks",
        )
    ]


def _replays(card: Card, minutes: float | None) -> list[Finding]:
    """The counter begins with the driver, which is not older than the boot."""
    gpu = card.gpu
    if gpu.replays is None or minutes is None or gpu.link_width is None:
        return []
    most = int(REPLAYS * gpu.link_width * max(minutes, 1.0))
    return [
        judge(
            "gpu.replays",
            card.subject,
            gpu.replays <= most,
            expected=f"at most {most} since the boot",
            observed=gpu.replays,
            action=Action.INSPECT,
            reason=f"slot {gpu.slot}: the link sends again and again: riser, cable, retimer",
            noun="PCIe replays",
        )
    ]
