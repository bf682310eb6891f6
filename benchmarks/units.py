"""What each unit of a CUDA extension costs to compile, alone: memory, CPU and time.

    python -m benchmarks.units TREE/build --source TEXT > wheels/recipes/profiles/NAME.json

`TREE/build` holds the build.ninja of a tree that was built, by torch or in its shape; its nvcc must
be named there without a wrapper. Every `.cu` is compiled again, one at a time. Memory is the
resident set of the compiler's whole process tree, sampled every 20 ms: pages that two of its
processes share are counted twice, and what lives shorter than that is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

SAMPLE_SECONDS = 0.02
POINTS = 24
"""Points of a curve at most."""
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


def main(argv: Sequence[str] | None = None) -> int:
    """Print the profile as JSON; progress goes to stderr."""
    parser = argparse.ArgumentParser(description="what each unit costs to compile, alone")
    parser.add_argument("build", type=Path, help="the folder of a build.ninja")
    parser.add_argument("--source", required=True, help="what, on which machine, when")
    options = parser.parse_args(argv)
    units = []
    for command in commands(options.build):
        units.append(measure(command, options.build))
        sys.stderr.write("{unit} {peak_mib} MiB, {seconds} s\n".format(**units[-1]))
    lines = ",\n".join(f"    {json.dumps(unit)}" for unit in units)
    sys.stdout.write(f'{{\n  "source": {json.dumps(options.source)},\n')
    sys.stdout.write(f'  "units": [\n{lines}\n  ]\n}}\n')
    return 0


def commands(build: Path) -> list[str]:
    """The command of every `.cu`, from ninja itself."""
    asked = subprocess.run(
        ["ninja", "-t", "compdb"], cwd=build, capture_output=True, text=True, check=True
    )
    return [row["command"] for row in json.loads(asked.stdout) if row["file"].endswith(".cu")]


def measure(command: str, build: Path) -> dict[str, object]:
    """Run one compiler to its end; sizes in MiB, times in seconds."""
    start = time.monotonic()
    child = subprocess.Popen(shlex.split(command), cwd=build)
    curve: list[tuple[float, float]] = []
    while not (ended := os.wait4(child.pid, os.WNOHANG))[0]:
        curve.append((time.monotonic() - start, resident(child.pid)))
        time.sleep(SAMPLE_SECONDS)
    seconds = time.monotonic() - start
    if ended[1]:
        raise SystemExit(f"{command}: ended with exit code {os.waitstatus_to_exitcode(ended[1])}")
    return {
        **described(command),
        "peak_mib": round(max(mib for _, mib in curve)),
        "cpu_s": round(ended[2].ru_utime + ended[2].ru_stime, 1),
        "seconds": round(seconds, 1),
        "curve": coarse(curve),
    }


def described(command: str) -> dict[str, object]:
    """The unit, its compiler's release, its architectures and threads, as the command says."""
    words = shlex.split(command)
    said = subprocess.run([words[0], "--version"], capture_output=True, text=True, check=True)
    release = re.search(r"release (\d+\.\d+)", said.stdout)
    threads = re.search(r"--threads (\d+)", command)
    return {
        "unit": Path(words[words.index("-c") + 1]).name,
        "nvcc": release[1] if release else "",
        "archs": [f"{major}.{minor}" for major, minor in re.findall(r"=sm_(\d+)(\d)\b", command)],
        "threads": int(threads[1]) if threads else 1,
    }


def resident(root: int) -> float:
    """MiB of a process and all below it."""
    total = 0.0
    for pid in family(root):
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_MIB
    return total


def family(pid: int) -> Iterator[int]:
    """A process and all below it. What ends meanwhile is left out."""
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from family(int(child))


def coarse(curve: Sequence[tuple[float, float]]) -> list[list[float]]:
    """At most POINTS of the samples [s, MiB]: the highest of each stretch, so the peak stays."""
    width = -(-len(curve) // POINTS)
    stretches = (curve[at : at + width] for at in range(0, len(curve), width))
    highest = (max(stretch, key=lambda sample: sample[1]) for stretch in stretches)
    return [[round(seconds, 1), round(mib)] for seconds, mib in highest]


if __name__ == "__main__":
    sys.exit(main())
