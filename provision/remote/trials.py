"""Has an environment's own interpreter make GPUs work: each trial by itself, under a deadline.

What hangs is ended with all that it started, and nothing more is tried: GPUs may be stuck, which
the look at the end tells.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from provision.remote import process
from provision.remote.collectors import gpus
from provision.remote.command import ENV
from provision.remote.probe import probe

CUDA = ("CUDA_", "NCCL_", "LD_LIBRARY_PATH")
"""What a login may set for all that computes on GPUs; nothing else of it reaches a trial."""
TAIL = 5
"""Lines of a failed trial's output that are told."""
SETTLE = 2.0
"""Seconds before the look at the end: nvidia-smi's utilisation is that of the last second."""
LONG = 800
"""Characters of them; the last ones say why."""
LOOK = 30.0
"""Seconds for the look at the end."""

Trial = Mapping[str, Any]


def attempt(python: str, script: str, trials: Sequence[Trial]) -> dict[str, Any]:
    """Every trial's answer by its name, and the GPUs as they are afterwards."""
    answers: dict[str, dict[str, Any]] = {}
    hung = ""
    with tempfile.TemporaryDirectory(prefix="trials-") as name:
        file = Path(name) / "script.py"
        file.write_text(script, encoding="utf-8")
        for trial in trials:
            if hung:
                answers[trial["name"]] = _answer("skipped", f"not tried: {hung} hung")
                continue
            start = time.monotonic()
            answer = _one(python, file, trial)
            answers[trial["name"]] = {**answer, "seconds": round(time.monotonic() - start, 2)}
            if answer["status"] == "hung":
                hung = trial["name"]
    time.sleep(SETTLE)
    return {"trials": answers, "after": probe([gpus], {}, deadline=LOOK)["facts"]["gpus"]}


def _one(python: str, file: Path, trial: Trial) -> dict[str, Any]:
    theirs = {name: text for name, text in os.environ.items() if name.startswith(CUDA)}
    env = {**ENV, **theirs, "PYTHONDONTWRITEBYTECODE": "1", **trial["env"]}
    with tempfile.TemporaryFile() as output:
        argv = [python, str(file), trial["does"]]
        try:
            code = process.run(argv, output=output, env=env, timeout=trial["deadline"])
        except subprocess.TimeoutExpired:
            return _answer("hung", f"no answer within {trial['deadline']:g} s")
        except OSError as error:
            return _answer("absent", f"{python}: {error.strerror}")
        output.seek(0)
        return parse_output(code, output.read().decode("utf-8", "replace"))


def parse_output(code: int, text: str) -> dict[str, Any]:
    """What a trial says in its last line; libraries may print before it."""
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        value = json.loads(lines[-1]) if code == 0 else None
    except (IndexError, ValueError):
        value = None
    if value is None:
        said = " | ".join(lines[-TAIL:])[-LONG:]
        return _answer("failed", f"exits {code}: {said or 'no message'}")
    if isinstance(value, dict) and "absent" in value:
        return _answer("absent", str(value["absent"]))
    return {"status": "ok", "value": value}


def _answer(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason}
