"""What GPUs did when they were made to work: of each outcome exactly the rows that turn."""

from __future__ import annotations

import copy
import dataclasses
import re
from typing import Any

import pytest

from provision import facts
from provision.checks import active
from provision.checks.recorded import figures, record
from provision.facts.trials import parse
from tests.health import hosts
from tests.health.hosts import at
from tests.health.test_faults import NAMED, written, wrong
from tests.infra import test_active


def ok(value: Any) -> dict[str, Any]:
    return {"status": "ok", "value": value}


def well(host: hosts.Host, *, nvlink: bool) -> dict[str, Any]:
    """What trials of eight right GPUs say."""
    gpus = range(8)
    together = {"gpus": 8, "right": True, "nccl": "2.27.5"}
    return {
        "trials": {
            "kernel": ok([{"gpu": gpu, "exact": True, "error": 2e-7} for gpu in gpus]),
            "bandwidth": ok([{"gpu": gpu, "to_gpu": 55.6, "to_host": 54.9} for gpu in gpus]),
            "p2p": ok(
                [
                    {"gpu": one, "to": other, "peer": True, "intact": True, "gb_s": 50.0}
                    for one in gpus
                    for other in gpus
                    if one != other
                ]
            ),
            "allreduce": ok(
                {**together, "latency_us": 14.0, "bus_gb_s": 400.0}
                if nvlink
                else {**together, "latency_us": 40.0, "bus_gb_s": 26.0}
            ),
            "allreduce_host": ok({**together, "latency_us": 60.0, "bus_gb_s": 20.0}),
            "flash_attn": ok({"error": 2e-3, "plain_error": 3e-3}),
            "vllm": ok({"version": "0.15.1", "cuda": True, "device": "NVIDIA H200"}),
        },
        "after": copy.deepcopy(host.raw["facts"]["gpus"]),
    }


def recorded(host):
    """The host, with what these trials gave as its baseline."""
    there, said = facts.parse(host.raw), parse(well(host, nvlink=host is NVLINK))
    want = dataclasses.replace(host.want, baseline=record("h", there, figures(there, said)))
    return hosts.Host(want, host.raw)


def rows(host, edits=(), passive=()):
    """What is said once the edits are made; a reason instead of edits: nothing was tried."""
    raw = copy.deepcopy(host.raw)
    for edit in passive:
        edit(raw["facts"])
    if isinstance(edits, str):
        return active.check(host.want, facts.parse(raw), facts.Unknown(edits))
    said = well(host, nvlink=host is hosts.nvswitch())
    for edit in edits:
        edit(said["after"] if edit.__name__ == "left" else said["trials"])
    return active.check(host.want, facts.parse(raw), parse(said))


def outcome(name, status, reason="no answer within 180 s"):
    """A trial that gave no value."""

    def edit(there):
        there[name] = {"status": status, "reason": reason}

    return edit


def skipped_after_a_hang():
    names = ("allreduce_host", "flash_attn", "vllm")
    return [
        outcome("allreduce", "hung"),
        *(outcome(name, "skipped", "not tried: allreduce hung") for name in names),
    ]


def without_a_gpu(there):
    there["kernel"]["value"].pop(5)


def afterwards(index, **fields):
    def left(after):
        after["value"][index].update(fields)

    return left


def lost(index):
    def left(after):
        after["value"].pop(index)

    return left


PCIE, NVLINK = hosts.pcie(), hosts.nvswitch()
RECORDED = recorded(PCIE)
FAULTS = {
    "a GPU that computes wrong": (
        PCIE,
        [at("kernel", 3, "exact", to=False)],
        {"active.kernel GPU 3": "reset"},
    ),
    "a GPU that computes not quite right": (
        PCIE,
        [at("kernel", 3, "error", to=1e-3)],
        {"active.kernel GPU 3": "reset"},
    ),
    "a GPU that CUDA does not see": (PCIE, [without_a_gpu], {"active.kernel GPU 5": "reset"}),
    "a slow way to a GPU": (
        PCIE,
        [at("bandwidth", 6, "to_gpu", to=24.0)],
        {"active.bandwidth GPU 6": "inspect"},
    ),
    "a slow way back": (
        PCIE,
        [at("bandwidth", 6, "to_host", to=12.0)],
        {"active.bandwidth GPU 6": "inspect"},
    ),
    "copies that arrive damaged": (
        PCIE,
        [at("p2p", 0, "intact", to=False)],
        {"active.p2p GPU 0": "reboot"},
    ),
    "wrong sums": (
        PCIE,
        [at("allreduce", "right", to=False)],
        {"active.allreduce host": "reboot"},
    ),
    "fewer GPUs than there are": (
        PCIE,
        [at("allreduce", "gpus", to=7)],
        {"active.allreduce host": "reboot"},
    ),
    "a late small message": (
        PCIE,
        [at("allreduce", "latency_us", to=180.0)],
        {"active.latency host": "inspect"},
    ),
    "a small message as over PCIe, where there is NVLink": (
        NVLINK,
        [at("allreduce", "latency_us", to=40.0)],
        {"active.latency host": "inspect"},
    ),
    "slow large messages": (
        PCIE,
        [at("allreduce", "bus_gb_s", to=11.0)],
        {"active.bus_bandwidth host": "inspect"},
    ),
    "large messages that take no NVLink": (
        NVLINK,
        [at("allreduce", "bus_gb_s", to=26.0)],
        {"active.bus_bandwidth host": "inspect"},
    ),
    "less of everything than was recorded": (
        RECORDED,
        [
            at("bandwidth", 6, "to_gpu", to=43.0),
            at("allreduce", "latency_us", to=60.0),
            at("allreduce", "bus_gb_s", to=20.0),
        ],
        {
            "active.bandwidth GPU 6": "inspect",
            "active.latency host": "inspect",
            "active.bus_bandwidth host": "inspect",
        },
    ),
    "an all-reduce that hangs": (
        PCIE,
        skipped_after_a_hang(),
        {
            "active.allreduce host": "reboot",
            "active.flash_attn host": "inspect",
            "active.vllm host": "inspect",
        },
    ),
    "an all-reduce that hangs without P2P alone": (
        PCIE,
        [outcome("allreduce_host", "hung")],
        {"active.allreduce_host host": "reboot"},
    ),
    "an attention that is wrong": (
        PCIE,
        [at("flash_attn", "error", to=0.5)],
        {"active.flash_attn host": "build"},
    ),
    "a vLLM for processors": (
        PCIE,
        [at("vllm", "cuda", to=False)],
        {"active.vllm host": "provision"},
    ),
    "a vLLM that does not import": (
        PCIE,
        [outcome("vllm", "failed", "exits 1: ImportError: Numba needs NumPy 2.2 or less")],
        {"active.vllm host": "inspect"},
    ),
    "a GPU that is busy afterwards": (
        PCIE,
        [afterwards(2, utilisation=100)],
        {"active.left GPU 2": "reset"},
    ),
    "a process that was left": (
        PCIE,
        [afterwards(2, processes=1)],
        {"active.left GPU 2": "reset"},
    ),
    "a GPU that is gone afterwards": (PCIE, [lost(2)], {"active.left GPU 2": "reboot"}),
    "nothing could be tried": (
        PCIE,
        "h: no environment there has torch",
        {"active.trials host": "inspect"},
    ),
    "nothing ran": (
        PCIE,
        [outcome(name, "failed", "exits 1: no") for name in ("kernel", "bandwidth", "p2p")],
        {
            "active.kernel host": "inspect",
            "active.bandwidth host": "inspect",
            "active.p2p host": "inspect",
        },
    ),
}


@pytest.mark.parametrize("host", [PCIE, NVLINK, RECORDED], ids=["pcie", "nvlink", "recorded"])
def test_gpus_that_work_have_no_wrong_row(host):
    assert wrong(rows(host)) == {}


@pytest.mark.parametrize("name", FAULTS)
def test_an_outcome_turns_exactly_its_rows(name):
    host, edits, turns = FAULTS[name]
    found = rows(host, edits)
    assert wrong(found) == turns
    for row in found:
        if not row.ok:
            assert row.reason
            assert re.fullmatch(r".+: .+ instead of .+", row.prose)


def test_every_active_check_is_turned():
    turned = {row.partition(" ")[0] for _, _, turns in FAULTS.values() for row in turns}
    named = {name for name in written(active=True) if NAMED.fullmatch(name)}
    assert named == turned == set(test_active.ACTIVE.values())


def test_what_was_recorded_as_slow_is_right_from_then_on():
    slow = [at("bandwidth", 6, "to_gpu", to=24.0), at("allreduce", "bus_gb_s", to=11.0)]
    said = well(PCIE, nvlink=False)
    for edit in slow:
        edit(said["trials"])
    there = facts.parse(PCIE.raw)
    taken = record("h", there, figures(there, parse(said)))
    want = dataclasses.replace(PCIE.want, baseline=taken)
    assert wrong(active.check(PCIE.want, there, parse(said))) != {}
    assert wrong(active.check(want, there, parse(said))) == {}


def test_a_hang_names_what_stands_in_the_way():
    hang = skipped_after_a_hang()
    acs = [at("acs", "0000:05:00.0", to=True)]
    mapped = [at("pci", index, "iommu", to="DMA-FQ") for index in range(8)]

    def reason(passive):
        found = rows(PCIE, hang, passive)
        return next(row.reason for row in found if row.id == "active.allreduce")

    assert "bridge 0000:05:00.0: ACS has redirection" in reason(acs)
    assert "IOMMU translating (DMA-FQ)" in reason(mapped)
    assert "neither IOMMU nor ACS" in reason([])


def test_after_a_hang_stuck_gpus_are_named():
    found = rows(PCIE, [*skipped_after_a_hang(), afterwards(4, utilisation=100)])
    assert wrong(found)["active.left GPU 4"] == "reset"


def test_what_an_environment_does_not_want_is_not_missed():
    absent = [outcome(name, "absent", "not in this environment") for name in ("vllm", "flash_attn")]
    assert {row.id for row in rows(PCIE, absent)} & {"active.vllm", "active.flash_attn"} == set()


def test_one_gpu_has_nobody_to_talk_to():
    raw = copy.deepcopy(PCIE.raw)
    raw["facts"]["gpus"]["value"] = raw["facts"]["gpus"]["value"][:1]
    said = well(PCIE, nvlink=False)
    for name in ("kernel", "bandwidth"):
        said["trials"][name]["value"] = said["trials"][name]["value"][:1]
    said["trials"]["p2p"]["value"] = []
    said["trials"]["allreduce"] = {"status": "absent", "reason": "it takes two GPUs"}
    want = dataclasses.replace(PCIE.want, gpus=None)
    found = active.check(want, facts.parse(raw), parse(said))
    assert wrong(found) == {}
    assert {row.id for row in found} & {"active.allreduce", "active.p2p", "active.latency"} == set()


@pytest.mark.parametrize(
    ("edits", "users"),
    [
        ([], []),
        ([at("gpus", 1, "processes", to=2)], ["a process on GPU 1"]),
    ],
)
def test_gpus_that_somebody_uses_are_left_alone(edits, users):
    raw = copy.deepcopy(PCIE.raw)
    for edit in edits:
        edit(raw["facts"])
    assert active.busy(facts.parse(raw)) == users


def test_who_uses_them_is_named_and_daemons_do_not_count():
    raw = copy.deepcopy(PCIE.raw)
    names = ("nvidia-persiste", "python3", "nv-hostengine")
    raw["facts"]["gpu_users"]["value"] = [
        {"pid": number, "name": name, "unit": None} for number, name in enumerate(names)
    ]
    assert active.busy(facts.parse(raw)) == ["python3 (1)"]
