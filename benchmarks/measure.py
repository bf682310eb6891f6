"""Runs a side on hosts at a distance, and keeps what it cost."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks import environment
from benchmarks.delay import Relays
from benchmarks.hosts import Bench, Folder
from benchmarks.sides import Place, Side

METER = Path(__file__).parent / "meter.py"
DEADLINE = 1800.0
"""Seconds after which a side is given up."""
END_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One run of a side on all its hosts; seconds, bytes, and counts of all hosts together."""

    wall: float
    cpu: float
    """Of this machine's side alone: user and system, of everything that the side started."""
    logins: int
    commands: int
    """Commands and subsystems that the hosts' sshd started."""
    round_trips: int
    up: int
    down: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What a sample is one of; the round-trip time in ms."""

    hosts: int
    rtt: float
    side: str


class WrongError(Exception):
    """A side did not find the hosts right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """Where all runs take place."""

    hosts: Sequence[Bench]
    folder: Folder
    relays: Relays
    peers: Path

    def run(self, side: Side, count: int, rtt: float) -> Sample:
        """Start a side on the first `count` hosts, `rtt` ms away. Raises WrongError."""
        hosts = self.hosts[:count]
        with tempfile.TemporaryDirectory(dir=self.folder.path, prefix="r") as name:
            scratch = Path(name)
            start = side.start(
                Place(hosts=hosts, folder=self.folder, scratch=scratch, peers=self.peers)
            )
            before = sum(host.commands() for host in hosts)
            self.relays.reset(rtt / 1000)
            figures, said = self._metered(start.argv, start.env, start.stdin, scratch)
            passed = self.relays.count()
            reason = f"it ended with {figures['code']}" if figures["code"] else start.wrong(said)
            if reason:
                raise WrongError(f"{side.label}: {reason}\n{said}")
        return Sample(
            wall=figures["wall"],
            cpu=figures["cpu"],
            logins=passed.connections,
            commands=sum(host.commands() for host in hosts) - before,
            round_trips=passed.round_trips,
            up=passed.up,
            down=passed.down,
        )

    def _metered(
        self, argv: Sequence[str], env: dict[str, str], stdin: bytes, scratch: Path
    ) -> tuple[dict[str, float], str]:
        """What the command cost, and what it said."""
        meter = (sys.executable, "-I", str(METER), str(scratch), str(DEADLINE))
        metered = subprocess.Popen(
            [*meter, *argv],
            cwd=environment.ROOT,
            env=environment.plain(scratch, self.folder.path / "pycache") | env,
            stdin=subprocess.PIPE,
        )
        try:
            metered.communicate(stdin)
        finally:
            metered.terminate()  # when we are interrupted: it ends what it started
            metered.wait(END_SECONDS)
        figures: dict[str, float] = json.loads((scratch / "figures").read_text())
        said = "".join(
            (scratch / name).read_text(encoding="utf-8", errors="replace")
            for name in ("out", "err")
        )
        return figures, said


def median(samples: Sequence[Sample]) -> Sample:
    """Each figure's median, by itself."""
    return Sample(
        **{
            one.name: type(getattr(samples[0], one.name))(
                statistics.median(getattr(sample, one.name) for sample in samples)
            )
            for one in fields(Sample)
        }
    )
