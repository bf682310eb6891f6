"""What a finished release must show before it is switched to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from provision.remote import record
from provision.remote.command import Failed, Missing, run
from provision.remote.elf import abi
from provision.remote.release import parse_distributions

CAPABILITY = re.compile(r"\d+\.\d+")
IMPORTS = {
    "numba": ("import numba", 120.0),
    "torch": ("import torch", 120.0),
    "vllm": ("from vllm import LLM", 300.0),
}
"""By distribution, what makes it look at others, and the seconds that may take.

numba compares NumPy's version, in words of its own; torch loads CUDA's libraries; vLLM imports
almost nothing before it is asked for something, then most of its environment. None needs a GPU.
"""


def prove(release: Path, *, lock_versions: dict[str, str], gpus: list[str] | None) -> list[str]:
    """What keeps a release from being switched to, in sentences; [] when nothing does.

    `lock_versions` are the lock's, by normalised name (PEP 503); `gpus` are the GPUs' compute
    capabilities ("12.0"), None where they are not known.
    """
    sites = list(release.glob("lib/python*/site-packages"))
    if len(sites) != 1:
        return [f"{release} has {len(sites)} site-packages folders, expected one"]
    site = sites[0]
    try:
        there = parse_distributions(path.name for path in site.iterdir())
    except Failed as reason:
        return [str(reason)]
    return [
        *versions(there, lock_versions),
        *record.faults(site),
        *abi.faults(site, gpus=gpus),
        *(fault for name in IMPORTS if name in there for fault in _imported(release, name)),
    ]


def gpus() -> list[str] | None:
    """Compute capabilities of this host's GPUs ("12.0"), None where nobody tells them."""
    try:
        said = run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    except (Missing, Failed):
        return None
    found = [line.strip() for line in said.out.splitlines()]
    return found if said.exit == 0 and all(map(CAPABILITY.fullmatch, found)) else None


def versions(there: dict[str, str], lock: dict[str, str]) -> Iterator[str]:
    """Distributions that are missing, of another version, or not in the lock."""
    for name in sorted(there.keys() | lock.keys()):
        if name not in there:
            yield f"{name} is missing, the lock has {lock[name]}"
        elif name not in lock:
            yield f"{name} {there[name]} is there, the lock has none"
        elif there[name] != lock[name]:
            yield f"{name} is {there[name]}, the lock has {lock[name]}"


def _imported(release: Path, name: str) -> Iterator[str]:
    """What the release's own Python says when it imports a module, alone and isolated."""
    statement, timeout = IMPORTS[name]
    try:
        said = run([str(release / "bin/python"), "-I", "-c", statement], timeout=timeout)
    except Missing:
        yield f"{release} has no bin/python that runs"
    except Failed:
        yield f"{statement!r} does not end within {timeout:g} s"
    else:
        if said.exit:
            yield f"{statement!r} fails: {_last(said.err) or _ending(said.exit)}"


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def _ending(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"Python exits {status}"
