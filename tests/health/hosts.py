"""Right hosts as the probe saw them, and ways to put one thing wrong with them.

The first is a lab host's own record: 8 (simulated) RTX PRO 6000 on two sockets. The second is
that record with the hardware of an NVSwitch machine in it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

from provision import checks, facts, planner
from provision.checks.finding import Finding
from provision.checks.recorded import record
from provision.inventory import Gpus
from provision.want import Want
from tests.scenarios import scenario

Raw = dict[str, Any]
Edit = Callable[[Raw], None]
H200 = "NVIDIA H200"
SWITCHES = [f"0000:{bus}:00.0" for bus in ("c0", "c1", "c2", "c3")]


@dataclasses.dataclass(frozen=True)
class Host:
    """What is wanted of a host, and what it is."""

    want: Want
    raw: Raw

    def rows(self, *edits: Edit) -> list[Finding]:
        """What all checks say once the edits are made."""
        raw = copy.deepcopy(self.raw)
        for edit in edits:
            edit(raw["facts"])
        plan = planner.plan("h", self.want, raw)
        return checks.check(self.want, facts.parse(raw), plan)


@cache
def pcie() -> Host:
    """8 GPUs that meet over PCIe; nobody recorded them."""
    one = scenario.load("debian12-finished")
    return Host(one.want, one.facts)


@cache
def recorded() -> Host:
    """The same, with the baseline of that very moment."""
    host = pcie()
    baseline = record("h", facts.parse(host.raw))
    return Host(dataclasses.replace(host.want, baseline=baseline), host.raw)


@cache
def unlisted() -> Host:
    """The same, where the inventory says nothing of GPUs."""
    host = pcie()
    return Host(dataclasses.replace(host.want, gpus=None), host.raw)


@cache
def nvswitch() -> Host:
    """8 H200 behind four NVSwitches."""
    host = pcie()
    raw = copy.deepcopy(host.raw)
    there = raw["facts"]
    fields = {"name": H200, "memory_total": 143771, "bar1_total": 262144, "fabric": "Completed"}
    for gpu in there["gpus"]["value"]:
        gpu.update(fields, power_limit=700.0, power_limit_default=700.0)
    for device in there["pci"]["value"]:
        device["device"] = "10de:2335"
    there["pci"]["value"] += [
        {"slot": slot, "device": "10de:22a3", "kind": "0680", "numa": 0}
        | {"driver": "nvidia", "iommu": "identity"}
        for slot in SWITCHES
    ]
    there["topology"]["value"]["links"] = [
        ["X" if row == column else "NV18" for column in range(8)] for row in range(8)
    ]
    there["units"]["value"]["nvidia-fabricmanager.service"] = {
        "active": "active",
        "enabled": "enabled",
    }
    there["dpkg"]["value"]["packages"]["nvidia-fabricmanager"] = {
        **there["dpkg"]["value"]["packages"]["nvidia-open"],
        "version": "590.48.01-1",
    }
    there["environments"]["value"]["main"]["proved"] = {"9.0": 8}
    want = dataclasses.replace(host.want, gpus=Gpus(count=8, model=H200))
    return Host(want, raw)


# --- what can be wrong -------------------------------------------------------------------------


def at(*path: str | int, to: object) -> Edit:
    """Another value at one place of one fact; it is there already, so no misspelling passes."""

    def edit(there: Raw) -> None:
        name, *keys = path
        inner = there[name]["value"]
        for key in keys[:-1]:
            inner = inner[key]
        assert not isinstance(inner, dict) or keys[-1] in inner, f"no {path} in these facts"
        inner[keys[-1]] = to

    return edit


def gpu(index: int, **fields: object) -> Edit:
    """A GPU of which some fields differ."""

    def edit(there: Raw) -> None:
        card = there["gpus"]["value"][index]
        assert fields.keys() <= card.keys()
        card.update(fields)

    return edit


def gone(index: int, *, bus: bool = False) -> Edit:
    """A GPU that no longer answers; with `bus` it can still be seen there."""

    def edit(there: Raw) -> None:
        cards = there["gpus"]["value"]
        slot = cards.pop(index)["slot"]
        for number, card in enumerate(cards):
            card.update(index=number, minor=number)
        for name in ("links", "numa", "cpus"):
            there["topology"]["value"][name].pop(index)
        for row in there["topology"]["value"]["links"]:
            row.pop(index)
        if not bus:
            there["pci"]["value"] = [d for d in there["pci"]["value"] if d["slot"] != slot]

    return edit


def link(one: int, other: int, *, to: str) -> Edit:
    """Two GPUs that are joined otherwise."""

    def edit(there: Raw) -> None:
        links = there["topology"]["value"]["links"]
        links[one][other] = links[other][one] = to

    return edit


def xid(slot: str, code: int, count: int = 1) -> Edit:
    """A report in the kernel's log."""

    def edit(there: Raw) -> None:
        text = f"{code}, pid=1, name=python3, what it says"
        there["xids"]["value"].append({"slot": slot, "code": code, "count": count, "text": text})

    return edit


def torch(*, cuda: str) -> Edit:
    """A torch that somebody put into the environment, with the runtime of its CUDA."""

    def edit(there: Raw) -> None:
        main = there["environments"]["value"]["main"]
        main["distributions"] |= {"torch": "2.9.1", "nvidia-cuda-runtime": f"{cuda}.48"}

    return edit


def silent(name: str, reason: str = "no answer within 30 s") -> Edit:
    """A fact that could not be found out."""

    def edit(there: Raw) -> None:
        assert there[name]["status"] == "ok"
        there[name] = {"status": "timeout", "reason": reason}

    return edit
