"""Faults put into the hardware description of a lab host, and what the checks make of them.

The GPUs are simulated; everything from nvidia-smi's output on is what real ones go through.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from provision import checks, engine, inventory, lab
from provision.lab import hardware
from provision.lab.hardware import Faults, Hardware
from provision.target import Target, lab_spec, target
from tests.lab.hosts import host_entry, on_host

NAME = "t-health"
ROOT = Path(__file__).parents[2]
RIGHT = hardware.load("rtxpro6000-8x")
REBOOT = "nohup sh -c 'sleep 0.2; reboot' >/dev/null 2>&1 &"


def broken(number: int, **faults: object) -> Hardware:
    """The right hardware, but for one card."""
    cards = list(RIGHT.gpus)
    cards[number] = cards[number].model_copy(update={"faults": Faults(**faults)})
    return RIGHT.model_copy(update={"gpus": tuple(cards)})


@dataclass
class Bench:
    """A finished host whose hardware changes."""

    target: Target

    def make(self, machine: Hardware, *, reboot: bool = False) -> None:
        lab.rebuild(NAME, machine)
        if reboot:
            on_host(self.target, REBOOT)
            self.target.transport.close()

    def wrong(self) -> dict[str, str]:
        seen = engine.look(self.target)
        rows = checks.check(self.target.want, seen.facts, seen.plan)
        return {f"{row.id} {row.subject}": row.action.value for row in rows if not row.ok}


@pytest.fixture(scope="module")
def bench(finished):
    host = host_entry(NAME, layer=finished)
    lab.up(lab_spec(host), fresh=True, say=lambda _: None)
    there = target(host)
    yield Bench(there)
    there.transport.close()
    lab.down(NAME, discard=True)


def test_a_right_host_has_no_wrong_row_and_costs_one_session_and_one_command(bench):
    bench.make(RIGHT)
    bench.wrong()  # its own login is over
    before = lab.sshd_sessions(NAME)
    fresh = Bench(target(bench.target.host))
    assert fresh.wrong() == {}
    cost = fresh.target.transport.cost
    fresh.target.transport.close()
    assert (cost.sessions, cost.execs) == (1, 1)
    assert lab.sshd_sessions(NAME) - before == 1


LIVE = {
    "x8": (broken(3, link_width=8), {"gpu.link_width GPU 3": "inspect"}),
    "Gen4": (broken(3, link_gen=4), {"gpu.link_gen GPU 3": "inspect"}),
    "BAR1": (broken(2, bar1_mib=256), {"gpu.bar1 GPU 2": "inspect"}),
    "memory": (broken(2, memory_mib=48000), {"gpu.memory GPU 2": "inspect"}),
    "power": (broken(6, power_limit_w=450), {"gpu.power_limit GPU 6": "inspect"}),
    "ECC off": (broken(0, ecc_off=True), {"gpu.ecc GPU 0": "reset"}),
    "ECC": (broken(5, ecc_uncorrectable=2), {"gpu.ecc_uncorrectable GPU 5": "reset"}),
    "SRAM": (broken(5, sram_uncorrectable=1), {"gpu.ecc_sram GPU 5": "inspect"}),
    "remap": (broken(5, remap_pending=True), {"gpu.remap_pending GPU 5": "reset"}),
    "no remap": (broken(5, remap_failure=True), {"gpu.remap_failure GPU 5": "inspect"}),
    "heat": (broken(1, slowdowns=("hw_thermal_slowdown",)), {"gpu.slowdown GPU 1": "inspect"}),
    "power cap": (broken(1, slowdowns=("sw_power_cap",)), {"gpu.slowdown GPU 1": "ignore"}),
    "replays": (broken(7, replays=10**6), {"gpu.replays GPU 7": "inspect"}),
    "stuck": (
        broken(7, utilisation=100),
        {"gpu.stuck GPU 7": "reset", "gpu.link_gen GPU 7": "inspect"},
    ),
    "recovery": (broken(4, recovery_action="Reset"), {"gpu.recovery_action GPU 4": "reset"}),
    "Xid 79": (broken(1, xids=(79,)), {"gpu.xid GPU 1": "reboot"}),
    "Xids": (broken(1, xids=(48, 45)), {"gpu.xid GPU 1": "reset"}),
    "silent": (
        broken(7, silent=True, xids=(79,)),
        {
            "gpu.count host": "inspect",
            "gpu.present GPU 7": "reboot",
            "gpu.xid slot 0000:f5:00": "reboot",
        },
    ),
}


@pytest.mark.parametrize("fault", LIVE)
def test_a_fault_turns_exactly_its_rows(bench, fault):
    machine, turns = LIVE[fault]
    bench.make(machine)
    assert bench.wrong() == turns


def test_nvidia_smi_that_hangs_is_a_finding_within_its_deadline(bench):
    bench.make(RIGHT.model_copy(update={"smi_hangs": True}))
    wrong = bench.wrong()
    assert wrong["driver.nvml host"] == "inspect"
    assert {f"gpu.present GPU {number}" for number in range(8)} <= wrong.keys()


def test_pytest_and_its_junit_name_the_gpu_and_what_is_wrong(bench, tmp_path):
    bench.make(broken(3, link_width=8))
    spec = bench.target.host.lab
    (tmp_path / "inventory.yaml").write_text(
        f"default: {NAME}\nhosts:\n  {NAME}:\n    lab: {{layer: {spec.layer}}}\n    stack: lab\n"
        f"    gpus: {{count: 8, model: {RIGHT.model.name}}}\n"
    )
    before = lab.sshd_sessions(NAME)
    report = tmp_path / "junit.xml"
    argv = [sys.executable, "-m", "pytest", "tests/infra", "-q", f"--junitxml={report}"]
    env = {**os.environ, inventory.VARIABLE: str(tmp_path / "inventory.yaml")}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout[-2000:]
    failures = [
        (
            case.get("name"),
            failure.get("message"),
            [one.get("name") for one in case.iter("property")],
        )
        for case in ET.parse(report).iter("testcase")  # noqa: S314 - our own
        for failure in case.iter("failure")
    ]
    ((name, message, properties),) = failures
    assert properties == ["gpu.link_width[GPU 3]"]
    assert name == f"test_gpu[{NAME}-GPU3-has its PCIe width]"
    assert "GPU 3: PCIe x8 instead of x16" in message
    assert lab.sshd_sessions(NAME) - before == 1


def test_what_only_a_boot_brings(bench):
    """A card off the bus, an IOMMU that translates, a bridge that redirects: all at once."""
    machine = broken(1, absent=True)
    bridges = list(machine.bridges)
    at = next(n for n, bridge in enumerate(bridges) if bridge.slot == "0000:74:00.0")
    bridges[at] = bridges[at].model_copy(update={"acs_redirect": True})
    machine = machine.model_copy(update={"bridges": tuple(bridges), "iommu": "DMA-FQ"})
    bench.make(machine, reboot=True)
    assert bench.wrong() == {
        "gpu.count host": "inspect",
        "gpu.present GPU 7": "inspect",
        "pcie.iommu host": "reboot",
        "pcie.acs bridge 0000:74:00.0": "inspect",
    }
