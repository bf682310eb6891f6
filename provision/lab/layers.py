"""Layers: what a frozen host had become, read-only, for other hosts to start on.

A layer is `layers/LABEL.N` with `files` and `layer.json`. Freezing under the same label makes the
next N; an older one goes when no host stands on it any more.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from provision.lab.record import Record
from provision.lab.store import LabError, lab_dir, private_dir, read_json, write_whole

FORGOTTEN = ("var/log/journal", "var/cache/apt/archives", "etc/machine-id")
"""What belongs to the frozen host alone: its log and identity, and what the cache lends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """One frozen state; `base` is what it lies on, as in a host's record."""

    folder: Path
    suite: str
    flavour: str
    base: str

    @property
    def lower(self) -> str:
        """What lies below a host that stands on this layer."""
        return f"{self.folder}/files:{self.base}"


def find(label: str) -> Layer:
    """The newest layer of a label."""
    folders = _folders(label)
    if not folders:
        hint = f"there are: {', '.join(_labels()) or 'none'}"
        raise LabError(f"no layer {label!r}", hint=hint)
    return Layer(folder=folders[-1], **(read_json(folders[-1] / "layer.json") or {}))


def fitting(label: str, suite: str, flavour: str) -> Layer:
    """The newest layer of a label, if a host of this suite and flavour can stand on it."""
    layer = find(label)
    if (layer.suite, layer.flavour) != (suite, flavour):
        raise LabError(
            f"layer {label} is of {layer.flavour} on {layer.suite}, not {flavour} on {suite}",
            hint="ask for the layer's own suite and flavour",
        )
    for path in layer.base.split(":"):
        if not Path(path).is_dir():
            raise LabError(f"what lies below layer {label} is gone: {path}", hint="freeze it again")
    return layer


def keep(record: Record, label: str) -> None:
    """Make the upper directory of a stopped host the newest layer of a label."""
    newest = _folders(label)
    number = int(newest[-1].name.rpartition(".")[2]) + 1 if newest else 1
    half = _home() / f"{label}.half"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    (record.folder / "upper").rename(half / "files")
    for name in FORGOTTEN:
        path = half / "files" / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    about = {"suite": record.suite, "flavour": record.flavour, "base": record.base}
    write_whole(half / "layer.json", json.dumps(about, indent=1))
    half.rename(_home() / f"{label}.{number}")


def sweep() -> None:
    """Remove layers that a newer one has replaced and nothing stands on."""
    for label in _labels():
        for folder in reversed(_folders(label)[:-1]):  # one may stand on an older one
            if _user(folder) is None:
                shutil.rmtree(folder)


def remove(label: str) -> None:
    """Remove every layer of a label."""
    for folder in reversed(_folders(label)):
        user = _user(folder)
        if user:
            raise LabError(f"{user} stands on layer {label}", hint="discard it first")
        shutil.rmtree(folder)


def _user(layer: Path) -> str | None:
    """A host or another layer that stands on this one."""
    bases = {record.name: record.base for record in Record.every()}
    for other in _labels():
        for folder in _folders(other):
            bases[folder.name] = (read_json(folder / "layer.json") or {})["base"]
    path = f"{layer}/files"
    return next((name for name, base in bases.items() if path in base.split(":")), None)


def _labels() -> list[str]:
    return sorted({path.name.rpartition(".")[0] for path in _home().iterdir()})


def _home() -> Path:
    return private_dir(lab_dir() / "layers")


def _folders(label: str) -> list[Path]:
    """The layers of a label, oldest first."""
    found = [path for path in _home().glob(f"{label}.*") if path.name[len(label) + 1 :].isdigit()]
    return sorted(found, key=lambda path: int(path.name.rpartition(".")[2]))
