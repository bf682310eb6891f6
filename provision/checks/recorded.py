"""What of a host's facts is worth remembering as its baseline, and what of it is doubtful. Pure."""

from __future__ import annotations

from dataclasses import replace

from provision.baseline import Baseline, Card, Figures
from provision.checks import capacity, gpus, multi_gpu
from provision.checks.finding import Finding, unseen
from provision.errors import ProvisionError
from provision.facts import Facts, Topology
from provision.facts.trials import AllReduce, Trials
from provision.want import Want

RECORDED = ("gpu.present", "gpu.link_width", "gpu.link_gen", "gpu.power_limit", "gpu.links")
"""Checks of what a baseline holds, and models' profiles or the inventory know otherwise."""


def record(host: str, facts: Facts, figures: Figures | None = None) -> Baseline:
    """A host's baseline. Raises ProvisionError where its GPUs can't be told."""
    if not isinstance(facts.gpus, list) or not facts.gpus:
        reason = "there are none" if isinstance(facts.gpus, list) else unseen(facts.gpus)
        raise ProvisionError(
            f"{host}: its GPUs can't be recorded: {reason}", hint=f"invoke verify --host {host}"
        )
    cards = tuple(
        Card(
            slot=gpu.slot,
            uuid=gpu.uuid,
            name=gpu.name,
            power_limit=gpu.power_limit,
            link_gen=gpu.link_gen_max,
            link_width=gpu.link_width,
        )
        for gpu in facts.gpus
    )
    there = facts.topology
    links = tuple(map(tuple, there.links)) if isinstance(there, Topology) else None
    return Baseline(gpus=cards, links=links, figures=figures)


def doubtful(want: Want, facts: Facts) -> list[Finding]:
    """What is recorded although a model's profile has more, or the inventory another model.

    From then on most of these rows are right: whoever records a fault by mistake is told now.
    """
    bare = replace(want, baseline=None)
    rows = [row for one in (gpus, capacity, multi_gpu) for row in one.check(bare, facts)]
    return [row for row in rows if row.id in RECORDED and not row.ok]


def figures(facts: Facts, trials: Trials) -> Figures:
    """What is worth remembering of trials; CUDA counts GPUs as nvidia-smi does."""
    slots = [gpu.slot for gpu in facts.gpus] if isinstance(facts.gpus, list) else []
    rows = trials.bandwidth if isinstance(trials.bandwidth, list) else []
    together = trials.allreduce if isinstance(trials.allreduce, AllReduce) else None
    return Figures(
        host_gb_s={
            slots[row.gpu]: min(row.to_gpu, row.to_host) for row in rows if row.gpu < len(slots)
        },
        latency_us=together.latency_us if together else None,
        bus_gb_s=together.bus_gb_s if together else None,
    )
