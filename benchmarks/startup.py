"""What it costs to start: importing, before a host is spoken to.

    python -m benchmarks.startup [--repeat N] [--instructions] [--host NAME] [--json FILE]

Measured are a bare interpreter, `invoke --list`, and `invoke provision` of a host that refuses
the connection: everything that a no-op imports until it has one. With `--host`, a host of the
inventory that is right takes its place, and the figures hold its answer too.

Compiled modules are those that the first, uncounted run wrote, as after `uv sync`, which writes
none. Times are of this machine: compare only what was measured on the same one. Instructions are
counted by valgrind, of the first process alone; they differ little from run to run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import environment
from provision import inventory

TOP = 15
WIDTH = 100
"""Characters that a table needs."""
LINE = re.compile(r"import time: +(\d+) \| +(\d+) \| ( *)(\S+)")
COLLECTED = re.compile(r"Collected *: (\d+)")
CALLGRIND = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """One way to start, measured; seconds, and microseconds by module."""

    label: str
    wall: float
    cpu: float
    """User and system, of child processes too."""
    imports: dict[str, int]
    """Module → microseconds of its own, with the interpreter's clock running beside."""
    instructions: int | None

    @property
    def importing(self) -> float:
        """Seconds for all modules."""
        return sum(self.imports.values()) / 1e6

    def packages(self) -> Counter[str]:
        """Microseconds by what stands before the first dot."""
        found: Counter[str] = Counter()
        for name, took in self.imports.items():
            found[name.partition(".")[0]] += took
        return found


def measure(
    label: str, words: Sequence[str], env: Mapping[str, str], *, repeat: int, count: bool
) -> Start:
    """Start Python with `words`, again and again; the first run is not counted."""
    _run([sys.executable, *words], env)
    runs = [_timed([sys.executable, *words], env) for _ in range(repeat)]
    said = _run([sys.executable, "-X", "importtime", *words], env)
    counted = COLLECTED.search(_run([*CALLGRIND, sys.executable, *words], env)) if count else None
    return Start(
        label=label,
        wall=statistics.median(wall for wall, _ in runs),
        cpu=statistics.median(cpu for _, cpu in runs),
        imports={name: int(own) for own, _, _, name in LINE.findall(said)},
        instructions=int(counted[1]) if counted else None,
    )


def _run(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """What it says on standard error; how it ends does not matter."""
    done = subprocess.run(
        argv,
        cwd=environment.ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr


def _timed(argv: Sequence[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    start = time.monotonic()
    child = subprocess.Popen(
        argv,
        cwd=environment.ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - start, used.ru_utime + used.ru_stime


def refusing(folder: Path) -> Path:
    """An inventory whose one host, `gone`, refuses every connection."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    file = folder / "inventory.yaml"
    host = f"{{address: 127.0.0.1, port: {port}, user: root, stack: lab}}"
    file.write_text(f"default: gone\nhosts:\n  gone: {host}\n", encoding="utf-8")
    return file


def show(console: Console, starts: Sequence[Start]) -> None:
    """Totals, and for the last what took longest."""
    table = Table(show_edge=False)
    for column in ("start", "wall ms", "CPU ms", "importing ms", "modules", "10⁶ instructions"):
        table.add_column(column, justify="left" if column == "start" else "right")
    for one in starts:
        table.add_row(
            one.label,
            f"{one.wall * 1000:.0f}",
            f"{one.cpu * 1000:.0f}",
            f"{one.importing * 1000:.0f}",
            str(len(one.imports)),
            f"{one.instructions / 1e6:.0f}" if one.instructions else "-",
        )
    console.print(table)
    last = starts[-1]
    counts = Counter(name.partition(".")[0] for name in last.imports)
    table = Table(title=last.label, title_justify="left", show_edge=False)
    for column in ("package", "ms", "modules", "", "module", "ms"):
        table.add_column(column, justify="right" if column in ("ms", "modules") else "left")
    longest = Counter(last.imports).most_common(TOP)
    for (package, took), (module, own) in zip(
        last.packages().most_common(TOP), longest, strict=False
    ):
        row = (package, f"{took / 1000:.1f}", str(counts[package]))
        table.add_row(*row, "", module, f"{own / 1000:.1f}")
    console.print(table)


def main() -> None:
    """Measure, show, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="(15)")
    parser.add_argument("--instructions", action="store_true", help="count them with valgrind")
    parser.add_argument("--host", metavar="NAME", help="a host of the inventory that is right")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every module's time too")
    asked = parser.parse_args()
    console = Console(highlight=False, width=max(Console().width, WIDTH))
    count = asked.instructions and shutil.which(CALLGRIND[0]) is not None
    if asked.instructions and not count:
        console.print(f"there is no {CALLGRIND[0]} on this computer: instructions are not counted")
    about = environment.about()
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        env = environment.plain(folder, folder / "pycache") | {"PYTHONHASHSEED": "0"}
        file = refusing(folder)
        if asked.host:
            file = Path(os.environ.get(inventory.VARIABLE, inventory.FILE)).absolute()
            env["HOME"] = str(Path.home())  # where lab hosts and keys are
        env[inventory.VARIABLE] = str(file)
        invoke = ("-m", "invoke")
        one = f"provision, {asked.host or 'connection refused'}"
        kinds = {
            "python": ("-c", "pass"),
            "invoke --list": (*invoke, "--list"),
            one: (*invoke, "provision", "--host", asked.host or "gone"),
        }
        starts = [
            measure(label, words, env, repeat=asked.repeat, count=count)
            for label, words in kinds.items()
        ]
    console.print(f"{about['date']}, revision {about['revision']}, median of {asked.repeat}")
    show(console, starts)
    if asked.json:
        rows = [asdict(one) for one in starts]
        asked.json.write_text(json.dumps({**about, "starts": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
