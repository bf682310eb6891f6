"""What a host was like when it was right: recorded once, compared ever after.

Kept as `baselines/HOST.json` beside the inventory. It says what a model alone can't: which card
sits in which slot, how wide that slot is, what power limit the owner set, how GPUs are joined.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from provision import inventory
from provision.errors import UsageError
from provision.stack import validated


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Card(_Part):
    """One GPU in its slot."""

    slot: str
    uuid: str
    name: str
    power_limit: float | None
    """W."""
    link_gen: int | None
    """The most that GPU and slot reach together."""
    link_width: int | None


class Figures(_Part):
    """What its GPUs did when they were made to work; None of what gave no figure."""

    host_gb_s: dict[str, float]
    """Slot → GB/s between host memory and the GPU there, in the slower direction."""
    latency_us: float | None
    """Of an all-reduce of 12 KiB."""
    bus_gb_s: float | None
    """Of an all-reduce of 256 MiB."""


class Baseline(_Part):
    """One host's GPUs, in nvidia-smi's order."""

    gpus: tuple[Card, ...]
    links: tuple[tuple[str, ...], ...] | None
    """As `nvidia-smi topo -m` has them; None where it gave no matrix."""
    figures: Figures | None
    """None where nobody made them work."""


def place(host: str) -> Path:
    """Where a host's baseline is kept."""
    return inventory.file().parent / "baselines" / f"{host}.json"


def load(host: str) -> Baseline | None:
    """The recorded one, None where there is none. Raises UsageError for a file that is none."""
    path = place(host)
    hint = f"record it anew: invoke verify --host {host} --record-baseline"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if nowhere := _nowhere(path):
            raise nowhere from error
        return None
    except OSError as error:
        raise UsageError(
            f"{path}: can't be read: {error.strerror}", hint=f"mend or remove it; then {hint}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: can't be read: {error}", hint=hint) from error
    try:
        found = validated(Baseline, data, str(path))
    except UsageError as error:
        raise UsageError(error.what, hint=hint) from error
    if found.links is not None and {len(found.gpus)} != {len(found.links), *map(len, found.links)}:
        raise UsageError(f"{path}: links: expected a row and a column per GPU", hint=hint)
    return found


def save(host: str, baseline: Baseline) -> Path:
    """Write a host's baseline; where it lies. Raises UsageError where that can't be."""
    path = place(host)
    try:
        with suppress(FileExistsError):  # where that is no folder, writing says so
            path.parent.mkdir()
        path.write_text(baseline.model_dump_json(indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        nowhere = _nowhere(path) if isinstance(error, FileNotFoundError) else None
        raise nowhere or UsageError(
            f"{path}: can't be written: {error.strerror}",
            hint="baselines lie beside the inventory: make that place writable, or remove what "
            "stands in the way",
        ) from error
    return path


def _nowhere(path: Path) -> UsageError | None:
    """Of a file that is not there: that it, or its folder, is a link to nowhere."""
    for one in (path, path.parent):
        if one.is_symlink():
            return UsageError(
                f"{one}: a link to {one.readlink()}, which is not there",
                hint="mend the link, or remove it",
            )
    return None
