"""What it costs to check a host: `pytest tests/infra`, and plain testinfra asking the same.

    python -m benchmarks.verify [--rtt MS]... [--repeat N] [--json FILE]

A lab host with 8 simulated GPUs is made freshly, brought to stack lab, and reached through a proxy
that delays and counts. Ours probes it once and asks all checks of those facts, a few hundred; plain
testinfra (benchmarks/peers/test_plain.py, backend ssh) asks the host for each of its questions.
The independent core of tests/infra is left out: it is plain testinfra itself, on our login. Both
are whole runs of pytest; a side whose tests do not pass ends the benchmark. Figures are medians;
nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import environment
from benchmarks.delay import Relays
from benchmarks.hosts import GPUS, Bench, Folder, benches
from provision import inventory
from provision.lab import hardware

PLAIN = Path(__file__).parent / "peers" / "test_plain.py"
PASSED = re.compile(r"(\d+) passed")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One run of one side."""

    side: str
    rtt: float
    """ms."""
    wall: float
    """Seconds."""
    passed: int
    logins: int
    commands: int


class WrongError(Exception):
    """A side's tests did not pass."""


def ours(folder: Folder) -> tuple[Sequence[str], dict[str, str]]:
    """The suite as users run it."""
    tests = [f"tests/infra/test_{name}.py" for name in ("gpus", "software", "state")]
    return (*PYTEST, *tests), {inventory.VARIABLE: str(folder.inventory)}


def plain(folder: Folder, host: Bench) -> tuple[Sequence[str], dict[str, str]]:
    """Testinfra with its ssh backend; --confcutdir keeps our own options out."""
    options = (f"--hosts=ssh://{host.name}", f"--ssh-config={folder.ssh_config}")
    machine = hardware.load("rtxpro6000-8x")
    wanted = {
        "driver": host.want.stack.system.driver.version,
        "gpus": GPUS["count"],
        "model": GPUS["model"],
        "bridges": [bridge.slot for bridge in machine.bridges],
        "toolkits": list(host.want.stack.toolkits),
        "distributions": host.want.stack.locks["main"].versions("3.11.2"),
    }
    apart = (f"--rootdir={PLAIN.parent}", f"--confcutdir={PLAIN.parent}")
    return (*PYTEST, *apart, *options, str(PLAIN)), {"WANTED": json.dumps(wanted)}


def run(
    side: str, rtt: float, host: Bench, relays: Relays, start: tuple[Sequence[str], dict[str, str]]
) -> Sample:
    """One run through the relay. Raises WrongError."""
    argv, env = start
    before = host.commands()
    relays.reset(rtt / 1000)
    begin = time.monotonic()
    done = subprocess.run(
        argv,
        cwd=environment.ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.monotonic() - begin
    found = PASSED.search(done.stdout)
    if done.returncode or not found:
        raise WrongError(f"{side}: its tests did not pass\n{done.stdout[-3000:]}{done.stderr}")
    return Sample(
        side=side,
        rtt=rtt,
        wall=wall,
        passed=int(found[1]),
        logins=relays.count().connections,
        commands=host.commands() - before,
    )


def show(console: Console, samples: Sequence[Sample]) -> None:
    """Medians, and the ratio to ours."""
    table = Table("rtt", "side", "checks", "logins", "commands", "seconds", "ratio")
    for rtt in dict.fromkeys(one.rtt for one in samples):
        ours_took = 0.0
        for side in dict.fromkeys(one.side for one in samples):
            those = [one for one in samples if (one.rtt, one.side) == (rtt, side)]
            took = statistics.median(one.wall for one in those)
            ours_took = ours_took or took
            last = those[-1]
            cells = (last.passed, last.logins, last.commands)
            row = (f"{rtt:g} ms", side, *map(str, cells), f"{took:.2f}", f"{took / ours_took:.1f}")
            table.add_row(*row)
    console.print(table)


def main() -> int:
    """Measure, show, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rtt", type=float, action="append", metavar="MS", help="(0, 80)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="(3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every sample")
    asked = parser.parse_args()
    console = Console(highlight=False)
    samples: list[Sample] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench") as name,
        benches(1, console.print) as (host,),
        Relays([host.port]) as relays,
    ):
        folder = Folder(Path(name))
        folder.write([host], relays.ports, [1])
        sides = {"firstlight": ours(folder), "plain testinfra": plain(folder, host)}
        try:
            for _ in range(asked.repeat):
                for rtt in asked.rtt or [0.0, 80.0]:
                    for side, start in sides.items():
                        samples.append(run(side, rtt, host, relays, start))
                        console.print(f"{side}, {rtt:g} ms: {samples[-1].wall:.2f} s")
        except WrongError as error:
            console.print(str(error), style="red", markup=False, soft_wrap=True)
            return 1
    show(console, samples)
    if asked.json:
        rows = [asdict(one) for one in samples]
        asked.json.write_text(json.dumps({**environment.about(), "samples": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
