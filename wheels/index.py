"""The wheelhouse as a simple package index (PEP 503), for uv and pip: files by their hash."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from urllib.parse import quote

from provision import wheelhouse
from provision.wheelhouse import Manifest

PAGE = "index.html"
HTML = '<!doctype html>\n<html><head><meta charset="utf-8"><title>{title}</title></head><body>\n'


def pages(wheels: Iterable[Manifest]) -> dict[str, str]:
    """Path within the index → page: one of all names, and one of each name's files. Pure."""
    by_name: dict[str, list[Manifest]] = {}
    for one in sorted(wheels, key=lambda one: one.file):
        by_name.setdefault(one.name, []).append(one)
    names = {f"{name}/": name for name in sorted(by_name)}
    files = {
        f"{name}/{PAGE}": _page(
            name, {f"../../{quote(one.file)}#sha256={one.sha256}": one.file for one in its}
        )
        for name, its in by_name.items()
    }
    return {PAGE: _page("the wheels that were built here", names), **files}


def write(folder: Path) -> None:
    """Write the index of a wheelhouse into its `simple`; what is no longer there goes.

    Raises UsageError for a manifest that can't be read, OSError for a folder that can't be written.
    """
    simple = folder / "simple"
    wanted = pages(wheelhouse.load(folder))
    for name, text in wanted.items():
        path = simple / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    for path in simple.iterdir():
        if path.is_dir() and f"{path.name}/{PAGE}" not in wanted:
            shutil.rmtree(path)


def _page(title: str, links: Mapping[str, str]) -> str:
    lines = (f'<a href="{escape(link)}">{escape(says)}</a><br>\n' for link, says in links.items())
    return f"{HTML.format(title=escape(title))}{''.join(lines)}</body></html>\n"
