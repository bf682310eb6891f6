"""What apt would do, asked of apt itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from provision.remote.apt_says import Trouble, diagnose
from provision.remote.command import run
from provision.remote.masked import masked

INSTALL = re.compile(r"^Inst (\S+) (?:\[(\S+)\] )?\((\S+) ", re.MULTILINE)
UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
"""apt counts in powers of ten (strutl.cc, SizeToStr)."""
DOWNLOAD = re.compile(r"^Need to get ([\d.]+) (\w+)(?:/[\d.]+ \w+)? of archives\.$", re.MULTILINE)
"""Of two sizes the first: what is not in the cache yet. Without such a line: nothing."""
INSTALLS = re.compile(
    r"^After this operation, ([\d.]+) (\w+) "
    r"(of additional disk space will be used|disk space will be freed)\.$",
    re.MULTILINE,
)
REMOVE = re.compile(r"^(?:Remv|Purg) (\S+) \[(\S+)\]", re.MULTILINE)


def simulate(argv: Sequence[str]) -> dict[str, Any]:
    """Ask apt what a transaction would do, and what room it takes; nothing is changed.

    It prints the sizes when it is asked for URIs alone; neither question needs a lock.
    """
    texts = []
    for question in ("--simulate", "--print-uris"):
        said = run([argv[0], question, *argv[1:]], timeout=120.0)
        if said.exit:
            text = said.out + said.err
            return _refusal(diagnose(text) or Trouble(parse_error(text), hint=""))
        texts.append(said.out)
    room = parse_room(texts[1])
    if room is None:
        return _refusal(Trouble("it does not say how much room it takes", hint=""))
    return {**parse(texts[0]), **room, "error": None, "hint": ""}


def _refusal(trouble: Trouble) -> dict[str, Any]:
    nothing = {"install": {}, "remove": {}, "download": 0, "installs": 0}
    return {**nothing, "error": masked(trouble.reason), "hint": trouble.hint}


def parse_room(text: str) -> dict[str, int] | None:
    """Bytes that would be downloaded, and that packages would take more than now (or less)."""
    installs = INSTALLS.search(text)
    if not installs:
        return None
    download = DOWNLOAD.search(text)
    sign = -1 if installs[3].endswith("freed") else 1
    return {
        "download": _bytes(download[1], download[2]) if download else 0,
        "installs": sign * _bytes(installs[1], installs[2]),
    }


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * UNITS[unit])


def parse(text: str) -> dict[str, Any]:
    """Packages that would be installed (version now, afterwards) and removed."""
    return {
        "install": {name: [old or None, new] for name, old, new in INSTALL.findall(text)},
        "remove": dict(REMOVE.findall(text)),
    }


def parse_error(text: str) -> str:
    """apt's refusal in one line: its errors."""
    errors = [line.removeprefix("E: ") for line in text.splitlines() if line.startswith("E: ")]
    return masked("; ".join(errors) or text.strip()[-500:] or "apt gave no reason")


def beyond(said: Mapping[str, Any], allowed: Mapping[str, Any]) -> list[str]:
    """What a simulated transaction does that the plan did not show; [] when nothing."""
    more = [
        f"installs {name} {new}"
        for name, (_, new) in said["install"].items()
        if allowed["install"].get(name, [None, None])[1] != new
    ]
    more += [
        f"removes {name} {version}"
        for name, version in said["remove"].items()
        if name not in allowed["remove"]
    ]
    return more
