"""nvidia-smi's plain table."""

from __future__ import annotations

import time
from typing import Any

from . import state

RULE = f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+"
WIDE = f"+{'-' * 89}+"
HEAD = """\
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |"""
PROCESSES = """\
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|  No running processes found                                                             |"""


def table(gpus: list[dict[str, Any]], model: dict[str, Any], driver: str, cuda: str) -> str:
    """The table for some GPUs."""
    versions = f"| NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<8} |"
    lines = [
        time.strftime("%a %b %e %H:%M:%S %Y       "),
        *(WIDE, versions, RULE, HEAD, f"|{'=' * 41}+{'=' * 24}+{'=' * 22}|"),
    ]
    for gpu in gpus:
        lines += [*_rows(gpu, model), RULE]
    return "\n".join([*lines, "", WIDE, PROCESSES, WIDE]) + "\n"


def _rows(gpu: dict[str, Any], model: dict[str, Any]) -> list[str]:
    name = model["name"] if len(model["name"]) <= 27 else f"{model['name'][:24]}..."
    persistence = "On" if state.persistent() else "Off"
    bus = f"0000{gpu['slot']}".upper()
    heat, mode = model["idle_temperature_c"], model["idle_state"]
    watts = f"{model['idle_power_w']:.0f}W / {model['power_limit_w']:>4.0f}W"
    memory = f"0MiB / {model['memory_mib']:>6}MiB"
    ecc = "0" if model["ecc"] else "Off"
    mig = "Disabled" if model["mig"] else "N/A"
    return [
        f"|{gpu['index']:>4}  {name:<27}    {persistence:<4}|   {bus} Off | {ecc:>20} |",
        f"| N/A  {heat:>3}C    {mode:<4}{watts:>22} | {memory:>22} |      0%      Default |",
        f"| {'':39} | {'':22} | {mig:>20} |",
    ]
