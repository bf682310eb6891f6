"""Which packages are installed, read from dpkg's own database: quicker than asking dpkg-query."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import names, read
from provision.remote.command import Failed, Missing
from provision.remote.paths import HELD
from provision.remote.probe import Query

NAME = "dpkg"
EXTENDED = Path("/var/lib/apt/extended_states")
ADMIN = Path("/var/lib/dpkg")
PREFIXES = ("cuda", "libcuda", "libnvidia", "linux-headers-", "linux-image-")
"""Packages that are of interest whether asked for or not, next to all that name nvidia."""
GONE = ("not-installed", "config-files")
"""States of a package of which nothing is left but, at most, its configuration."""
LASTING = re.compile(rf"^Status: (?!hold )\S+ ok (?:installed|{'|'.join(GONE)})$", re.MULTILINE)
"""States in which dpkg leaves a package, unless it is held; any other is of interest, whoever it
belongs to."""
FIELD = re.compile(r"^(Package|Status|Version|Architecture): *(.*)$", re.MULTILINE)
FIELD_AUTO = re.compile(r"^(Package|Architecture|Auto-Installed): *(.*)$", re.MULTILINE)


def collect(query: Query) -> dict[str, Any]:
    try:
        text = (ADMIN / "status").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise Missing("no dpkg database") from error
    updates = sorted(filter(is_update, (ADMIN / "updates").iterdir()))
    # An interrupted dpkg wrote there what it had done, and reads it when it is started again.
    text = "\n\n".join([text, *(read(path) or "" for path in updates)])
    noted = names(HELD)
    wanted = {*query["packages"], *(name.partition(":")[0] for name in noted)}
    packages = parse_status(text, wanted)
    for name in parse_auto(read(EXTENDED) or "", _native(text)) & packages.keys():
        packages[name]["auto"] = True
    return {
        "interrupted": bool(updates),
        "packages": packages,
        "noted": [name for name in noted if name in packages],
    }


def is_update(path: Path) -> bool:
    """An entry of dpkg's journal: its name is all digits, as dpkg's modstatdb reads them."""
    return path.name.isdigit()


def parse_status(text: str, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
    """Packages of interest by name; those of a foreign architecture by name:architecture.

    What stands later in the text is newer.
    """
    native = _native(text)
    packages: dict[str, dict[str, Any]] = {}
    for stanza in text.split("\n\n"):
        name = stanza.partition("\n")[0].strip().removeprefix("Package: ")
        if not name or not (_interesting(name, wanted) or not LASTING.search(stanza)):
            continue
        fields = dict(FIELD.findall(stanza))
        architecture = fields.get("Architecture", native)
        key = name if architecture in (native, "all") else f"{name}:{architecture}"
        packages.pop(key, None)
        if package := _package(name, fields):
            packages[key] = package
    return packages


def _native(text: str) -> str:
    """The architecture that dpkg itself is built for."""
    match = re.search(r"^Package: dpkg\n(?:.+\n)*?Architecture: (\S+)", text, re.MULTILINE)
    if not match:
        raise Failed("dpkg's database does not list dpkg itself")
    return match[1]


def _interesting(name: str, wanted: Collection[str]) -> bool:
    return name in wanted or "nvidia" in name or name.startswith(PREFIXES)


def _package(name: str, fields: dict[str, str]) -> dict[str, Any] | None:
    """Status is 'want error state'; a package that was only unpacked may lack its version."""
    words = fields.get("Status", "").split()
    if len(words) != 3:
        raise Failed(f"dpkg's database has no status for {name}: it is damaged or cut short")
    if words[2] in GONE:
        return None
    return {
        "version": fields.get("Version", ""),
        "status": words[2],
        "hold": words[0] == "hold",
        "auto": False,
        "reinstreq": words[1] == "reinstreq",
    }


def parse_auto(text: str, native: str) -> set[str]:
    """Packages that apt installed only as a dependency, from its extended_states.

    Those of a foreign architecture as name:architecture, like everywhere here.
    """
    stanzas = [dict(FIELD_AUTO.findall(stanza)) for stanza in text.split("\n\n")]
    return {
        name
        if (arch := stanza.get("Architecture", native)) in (native, "all")
        else f"{name}:{arch}"
        for stanza in stanzas
        if stanza.get("Auto-Installed") == "1" and (name := stanza.get("Package"))
    }
