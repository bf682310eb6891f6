"""What GPUs are made to do, and how long each thing may take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "script.py"
TRIALS: dict[str, tuple[str, float]] = {
    "kernel": ("kernel", 180.0),
    "bandwidth": ("bandwidth", 120.0),
    "p2p": ("p2p", 180.0),
    "allreduce": ("allreduce", 180.0),
    "allreduce_host": ("allreduce", 180.0),
    "flash_attn": ("flash_attn", 180.0),
    "vllm": ("vllm", 300.0),
}
"""Trial → what the script does in it, and the seconds after which it is taken for hung. The first
import of torch from a cold disk alone can take a minute."""
ENVIRONMENT = {"allreduce_host": {"NCCL_P2P_DISABLE": "1"}}
"""The same all-reduce as over PCIe through host memory: what peer-to-peer access gains."""


def order(python: str) -> dict[str, Any]:
    """The request to a host: the script, and what to run of it with which interpreter."""
    trials = [
        {"name": name, "does": does, "deadline": seconds, "env": ENVIRONMENT.get(name, {})}
        for name, (does, seconds) in TRIALS.items()
    ]
    script = SCRIPT.read_text(encoding="utf-8")
    return {"do": "try", "python": python, "script": script, "trials": trials}


def deadline() -> float:
    """Seconds for all of them, one after the other, and their ends."""
    return sum(seconds for _, seconds in TRIALS.values()) + 120.0
