"""The sides of the benchmark: how each is started, and what it must say of hosts that are right."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.batch import answer, script
from benchmarks.hosts import Bench, Folder
from provision import inventory, wire
from provision.planner import plan

PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """One run of a side."""

    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    """Beside what every side gets."""
    stdin: bytes = b""
    wrong: Callable[[str], str]
    """From what it said: why it did not find every host right; '' when it did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a run takes place."""

    hosts: Sequence[Bench]
    folder: Folder
    scratch: Path
    """An empty folder with a short path."""
    peers: Path
    """`bin` of the peers' environment."""

    @property
    def names(self) -> list[str]:
        """The hosts' names."""
        return [host.name for host in self.hosts]


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """Something that can tell whether hosts are right."""

    name: str
    label: str
    start: Callable[[Place], Start]


def _ours(place: Place) -> Start:
    named = [word for name in place.names for word in ("--host", name)]

    def wrong(said: str) -> str:
        right = said.count("nothing to do")
        return "" if right == len(named) // 2 else f"{right} hosts have nothing to do"

    return Start(
        argv=[sys.executable, "-m", "invoke", "provision", *named],
        env={inventory.VARIABLE: str(place.folder.inventory)},
        wrong=wrong,
    )


def _fan(place: Place, command: str) -> list[str]:
    folder, config = str(place.scratch), str(place.folder.ssh_config)
    return ["sh", str(PEERS / "fan.sh"), config, folder, command, *place.names]


def _floor(place: Place) -> Start:
    for host in place.hosts:
        (place.scratch / f"{host.name}.in").write_bytes(host.probe)

    def wrong(_: str) -> str:
        for host in place.hosts:
            raw = json.loads((place.scratch / f"{host.name}.out").read_text())
            raw["facts"].setdefault("simulations", {"status": "absent"})
            if not plan(host.name, host.want, raw).empty:
                return f"{host.name}: our plan from its facts is not empty"
        return ""

    return Start(argv=_fan(place, shlex.join(wire.ARGV)), wrong=wrong)


def _batch(place: Place) -> Start:
    for host in place.hosts:
        (place.scratch / f"{host.name}.in").write_text(script(host.expected))

    def wrong(_: str) -> str:
        for host in place.hosts:
            said = (place.scratch / f"{host.name}.out").read_text()
            if said != answer(host.expected):
                return f"{host.name}: said:\n{said}\nexpected:\n{answer(host.expected)}"
        return ""

    return Start(argv=_fan(place, "sh"), wrong=wrong)


TOTAL = re.compile(r"Grand total +(\d+) +(\S+) +(\S+) +(\S+)")
"""Operations of all hosts, those that changed something, those that failed, those that did not."""


def _pyinfra(place: Place, *options: str, stdin: bytes = b"") -> Start:
    def wrong(said: str) -> str:
        total = TOTAL.search(said)
        right = total is not None and total[2] == total[3] == "-" and total[1] == total[4]
        return "" if right else "pyinfra's grand total is not of unchanged operations alone"

    return Start(
        argv=[
            *(str(place.peers / "pyinfra"), *options),
            *(str(PEERS / "inventory.py"), str(PEERS / "pyinfra_deploy.py")),
        ],
        env={"BENCHMARK_HOSTS": str(place.folder.described(len(place.hosts)))},
        stdin=stdin,
        wrong=wrong,
    )


RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)


def _ansible(place: Place, config: str) -> Start:
    def wrong(said: str) -> str:
        recap = {name: [int(n) for n in counts] for name, *counts in RECAP.findall(said)}
        if recap.keys() != set(place.names):
            return f"Ansible's recap names {', '.join(recap)}"
        bad = [name for name, (ok, *others) in recap.items() if not ok or any(others)]
        return f"Ansible reports changes on {', '.join(bad)}" if bad else ""

    return Start(
        argv=[
            *(str(place.peers / "ansible-playbook"), str(PEERS / "playbook.yaml")),
            *("--inventory", str(place.folder.described(len(place.hosts)))),
        ],
        env={"ANSIBLE_CONFIG": str(PEERS / config), "ANSIBLE_NOCOLOR": "1"},
        wrong=wrong,
    )


SIDES = (
    Side(name="ours", label="firstlight", start=_ours),
    Side(name="floor", label="ssh, our probe alone", start=_floor),
    Side(name="batch", label="ssh, one shell script", start=_batch),
    Side(
        name="pyinfra-tuned",
        label="pyinfra --yes --no-wait",
        start=lambda place: _pyinfra(place, "--yes", "--no-wait"),
    ),
    Side(name="pyinfra", label="pyinfra", start=lambda place: _pyinfra(place, stdin=b"\n")),
    Side(
        name="ansible-tuned",
        label="Ansible, pipelining",
        start=lambda place: _ansible(place, "tuned.cfg"),
    ),
    Side(name="ansible", label="Ansible", start=lambda place: _ansible(place, "defaults.cfg")),
)
"""In the order in which they run; the floor is what ours is held against."""
