"""What it costs to find that hosts are right: ours, a floor, and peers that check the same.

    python -m benchmarks.noop [--rtt MS]... [--hosts N]... [--repeat N] [--peers [NAME]...]

Lab hosts `bench-1` … are made freshly, brought to stack lab, reached through a proxy that delays
and counts (benchmarks/delay.py), and taken down at the end, on Ctrl-C too. Their hardware is
simulated; sshd, apt, dpkg, systemd and Python on them are real. Every host is a host of its own,
but all of them share this machine's processors with the sides that are measured.

The floor is one login of OpenSSH's client that sends what our probe sends; "one shell script"
asks only what the peers are asked. Peers run as they come and at their best: Ansible with
pipelining and eight forks, both times without gathering facts, which nothing here needs, and with
ControlPersist, which is its default. Every side is started anew, as a user starts it: no login
is left of the run before, compiled Python modules are those that earlier runs wrote. All sides
take turns; figures are medians. A side that does not find every host right ends the benchmark
with what it said. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks import environment
from benchmarks.delay import Relays
from benchmarks.expected import checks
from benchmarks.hosts import Folder, benches
from benchmarks.measure import Case, Course, Sample, WrongError, median
from benchmarks.sides import SIDES, Side
from benchmarks.table import WIDTH, show


def cases(asked: argparse.Namespace, sides: Sequence[Side]) -> Iterator[tuple[Side, Case]]:
    """Every case, `--repeat` times, so that the sides take turns."""
    for _ in range(asked.repeat):
        for count in asked.hosts:
            for rtt in asked.rtt:
                for side in sides:
                    yield side, Case(hosts=count, rtt=rtt, side=side.name)


def arguments() -> argparse.Namespace:
    """The command line."""
    names = [side.name for side in SIDES if side.name not in ("ours", "floor")]
    lines = (__doc__ or "").splitlines()
    parser = argparse.ArgumentParser(description=lines[0])
    parser.add_argument("--rtt", type=float, action="append", metavar="MS", help="(0, 30, 80)")
    parser.add_argument("--hosts", type=int, action="append", metavar="N", help="(1, 8)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="(3)")
    parser.add_argument("--peers", nargs="*", choices=names, help="beside ours and the floor (all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every sample and median")
    asked = parser.parse_args()
    asked.rtt = asked.rtt or [0.0, 30.0, 80.0]
    asked.hosts = asked.hosts or [1, 8]
    asked.peers = names if asked.peers is None else asked.peers
    return asked


def main() -> int:
    """Measure, show, and write."""
    asked = arguments()
    console = Console(highlight=False, width=max(Console().width, WIDTH))
    sides = [side for side in SIDES if side.name in ("ours", "floor", *asked.peers)]
    about = environment.about()
    peers = environment.peers()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    samples: dict[Case, list[Sample]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="bench") as name,
        benches(max(asked.hosts), console.print) as hosts,
        Relays([host.port for host in hosts]) as relays,
    ):
        folder = Folder(Path(name))
        folder.write(hosts, relays.ports, asked.hosts)
        course = Course(hosts=hosts, folder=folder, relays=relays, peers=peers)
        about["checks"] = checks(hosts[0].expected)
        try:
            for side in sides:
                course.run(side, min(asked.hosts), 0.0)  # unmeasured: fills caches
            for side, case in cases(asked, sides):
                samples[case].append(course.run(side, case.hosts, case.rtt))
                last = samples[case][-1]
                console.print(
                    f"{case.hosts} host(s), {case.rtt:g} ms, {side.label}: {last.wall:.2f} s"
                )
        except WrongError as error:
            console.print(str(error), style="red", markup=False, soft_wrap=True)
            return 1
    medians = {case: median(those) for case, those in samples.items()}
    show(console, about, medians)
    if asked.json:
        rows = [
            {**asdict(case), "median": asdict(medians[case]), "samples": [*map(asdict, those)]}
            for case, those in samples.items()
        ]
        asked.json.write_text(json.dumps({**about, "cases": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
