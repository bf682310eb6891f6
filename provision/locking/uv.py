"""Runs the project's own uv, and writes locks: the one place of this room with effects."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from uv import find_uv_bin

from provision.locking import merge, text
from provision.locking.inputs import Inputs
from provision.locking.question import REQUIREMENTS, RESULT, arguments, preferred
from provision.locking.reasons import refusal

CHOOSING = (
    *("UV_CONSTRAINT", "UV_EXCLUDE", "UV_OVERRIDE", "UV_PRERELEASE", "UV_RESOLUTION"),
    "UV_TORCH_BACKEND",
)
"""Variables by which one user's uv would choose other versions than another's."""


def resolve(
    where: str, inputs: Inputs, locked: Iterable[text.Pin], say: Callable[[str], None]
) -> list[text.Pin]:
    """The pins for all Pythons, the newest first; those that the lock has are kept to.

    Raises ProvisionError with uv's reason.
    """
    kept = list(locked)
    found: dict[str, tuple[text.Pin, ...]] = {}
    for python in reversed(inputs.pythons):
        say(f"resolving for Python {merge.minor(python)}")
        asked = f"{where} for Python {merge.minor(python)}"
        found[python] = _compile(asked, inputs, python, preferred(kept, found, python))
    return merge.merge(found)


def _compile(
    where: str, inputs: Inputs, python: str, versions: Mapping[str, str]
) -> tuple[text.Pin, ...]:
    with tempfile.TemporaryDirectory() as name:  # the project's own pyproject.toml has no say there
        folder = Path(name)
        (folder / REQUIREMENTS).write_text(
            "".join(f"{r}\n" for r in inputs.requirements), encoding="utf-8"
        )
        (folder / RESULT).write_text(
            "".join(f"{n}=={v}\n" for n, v in versions.items()), encoding="utf-8"
        )
        said = subprocess.run(
            [find_uv_bin(), *arguments(inputs, python), "--python", sys.executable],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name not in CHOOSING},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if said.returncode:
            raise refusal(where, inputs, said.stderr)
        return text.read((folder / RESULT).read_text(encoding="utf-8"))


def write(file: Path, content: str) -> None:
    """Replace a lock at once: whoever is interrupted leaves the old one whole."""
    file.parent.mkdir(exist_ok=True)
    fresh = file.with_suffix(f".{os.getpid()}")
    try:
        fresh.write_text(content, encoding="utf-8")
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
