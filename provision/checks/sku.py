"""What each model of GPU is made of: `skus/*.toml`, the source of every figure beside it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from provision import tables
from provision.stack import Table, validated

FOLDER = Path(__file__).parent / "skus"


class Sku(Table):
    """One model, as its maker describes it."""

    models: tuple[str, ...]
    """Patterns (fnmatch) of names as nvidia-smi prints them."""
    memory_mib: int
    """As nvidia-smi shows it: what is sold as GB is mostly GiB, less what the driver keeps."""
    ecc: bool | None = None
    """None where the maker leaves it to the owner."""
    power_w: float
    """Its own power limit, in W."""
    link_gen: int
    link_width: int
    nvlink: bool | None = None
    """All GPUs of a host are joined by it; None where that depends on bridges."""


@cache
def skus() -> tuple[Sku, ...]:
    """All that there are. Raises UsageError naming the file, and the line or the field."""
    files = sorted(FOLDER.glob("*.toml"))
    return tuple(validated(Sku, tables.read(path), path.name) for path in files)


def of(model: str) -> Sku | None:
    """The one with this name, None where nobody wrote it down."""
    found = (sku for sku in skus() for name in sku.models if fnmatchcase(model, name))
    return next(found, None)
