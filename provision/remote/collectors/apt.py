"""Where apt would take packages from: policy, sources, and whether indexes are fresh."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.remote import openpgp
from provision.remote.apt import parse_error
from provision.remote.collectors.dpkg import ADMIN, parse_status
from provision.remote.collectors.reading import exists, names
from provision.remote.command import Failed, run
from provision.remote.masked import masked
from provision.remote.probe import Query

NAME = "apt"
ETC = Path("/etc/apt")
LISTS = Path("/var/lib/apt/lists")
DISABLED = {"no", "false", "without", "off", "disable", "0"}
"""The words that apt's StringToBool takes for no."""
QUOTED = frozenset('\\|{}[]<>"^~_=!@#$%^&*')
"""Characters that apt's URItoFileName writes as %xx."""

KINDS = ("InRelease", "Release", "Packages")
"""Files that a fetch leaves of a source; a flat one without a Release file has the last alone."""
LATELY = 3600.0
"""Seconds during which an index that lacks a package is believed."""
ARMOUR = "-----BEGIN PGP"
ONE_LINE = re.compile(r"deb\s+(?:\[([^\]]*)\]\s*)?(\w+:\[[^\]]*\]\S*|\S+)\s+(\S+)")
VERSION = re.compile(r"(?: \*\*\* | {5})(\S+)(?: |$)")
ORIGIN = re.compile(r" {7,}-?\d+ (\S+)")


@dataclass(frozen=True)
class Entry:
    """One archive and suite that apt reads."""

    file: str
    uri: str
    """Without the password that some have: facts are shown, and stand in saved plans."""
    suite: str
    signed_by: str | None
    """As written: keyring files, fingerprints, or the key itself."""
    trusted: bool = False
    """Told to take packages without any signature."""


def collect(query: Query) -> dict[str, Any]:
    entries = _entries(ETC)
    policy, error = _policy([*query["policy"], *_installed()])
    return {
        "error": error,
        "policy": policy,
        "sources": _sources(entries),
        "fresh": fresh(entries, LISTS, time.time()),
    }


def _policy(names: list[str]) -> tuple[dict[str, Any], str | None]:
    """What apt would take, and why it can't tell: two sources may contradict each other."""
    if not names:
        return {}, None
    said = run(["apt-cache", "policy", *dict.fromkeys(names)])
    if said.exit:
        return {}, parse_error(said.err)
    return parse_policy(masked(said.out)), None


def _installed() -> list[str]:
    """Packages of a driver, whoever installed them: they move with it, or go."""
    status = (ADMIN / "status").read_text(encoding="utf-8", errors="replace")
    return [name for name in parse_status(status, ()) if not name.startswith("linux-")]


def parse_policy(text: str) -> dict[str, Any]:
    """Packages that apt knows, each with its candidate and the origins of its versions."""
    packages: dict[str, Any] = {}
    origins: list[str] = []
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            package = packages[line[:-1]] = {"candidate": None, "versions": {}}
        elif line.startswith("  Candidate: "):
            candidate = line.removeprefix("  Candidate: ")
            package["candidate"] = None if candidate == "(none)" else candidate
        elif version := VERSION.match(line):
            origins = package["versions"].setdefault(version[1], [])
        elif origin := ORIGIN.match(line):
            origins.append("installed" if origin[1] == "/var/lib/dpkg/status" else origin[1])
    for package in packages.values():
        package["versions"] = {
            version: " ".join(dict.fromkeys(found))
            for version, found in package["versions"].items()
        }
    return packages


def _entries(etc: Path) -> list[Entry]:
    main = etc / "sources.list"
    parts = etc / "sources.list.d"
    files = [*([main] if exists(main) else []), *(parts / name for name in names(parts))]
    return [
        entry for path in files if path.suffix in (".list", ".sources") for entry in _read(path)
    ]


def _read(path: Path) -> Iterable[Entry]:
    text = path.read_text(encoding="utf-8", errors="replace")
    parse = parse_deb822 if path.suffix == ".sources" else parse_one_line
    return parse(text, str(path))


def _sources(entries: list[Entry]) -> dict[str, list[dict[str, Any]]]:
    keys = {entry.signed_by: _fingerprints(entry.signed_by) for entry in entries}
    sources: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        inline = (entry.signed_by or "").startswith(ARMOUR)
        source = {
            "file": entry.file,
            "suite": entry.suite,
            "signed_by": entry.file if inline else entry.signed_by,
            "fingerprints": keys[entry.signed_by],
            "trusted": entry.trusted,
        }
        sources.setdefault(entry.uri.rstrip("/"), []).append(source)
    return sources


def _fingerprints(signed_by: str | None) -> list[str]:
    """Of the keys that Signed-By allows; a keyring that is not there allows none."""
    if signed_by is None:
        return []
    if signed_by.startswith(ARMOUR):
        return openpgp.fingerprints(signed_by.encode())
    found: list[str] = []
    for word in re.split(r"[,\s]+", signed_by):
        if not word.startswith("/"):
            found.append(word.rstrip("!").upper())
        elif exists(word):
            found += _keyring(Path(word))
    return found


def _keyring(path: Path) -> list[str]:
    try:
        return openpgp.fingerprints(path.read_bytes())
    except ValueError as error:
        raise Failed(f"{path}: {error}") from error


def parse_one_line(text: str, file: str) -> Iterator[Entry]:
    """`deb [options] URI suite components`; deb-src and comments don't count."""
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.partition("#")[0].strip()
        if not re.match(r"deb\s", entry):
            continue
        match = ONE_LINE.match(entry)
        if not match:
            raise Failed(f"{file}, line {number}: not a source that apt reads")
        given = match[1] or ""
        options = re.search(r"\bsigned-by\s*=\s*(\S+)", given, re.IGNORECASE)
        trusted = re.search(r"\btrusted\s*=\s*(\S+)", given, re.IGNORECASE)
        signed_by = options[1] if options else None
        uri, suite = masked(match[2]), match[3]
        yield Entry(file, uri, suite, signed_by, trusted=_yes(trusted[1] if trusted else ""))


def _yes(word: str) -> bool:
    return bool(word) and word.lower() not in DISABLED


def parse_deb822(text: str, file: str) -> Iterator[Entry]:
    """Stanzas of fields; every URI is combined with every suite."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n(?:[ \t]*\n)+", "\n".join(lines)):
        if not stanza.strip():
            continue
        fields = _fields(stanza)
        if fields.get("enabled", "yes").lower() in DISABLED:
            continue
        if absent := [name for name in ("types", "uris", "suites") if not fields.get(name)]:
            raise Failed(f"{file}: a source has no {' and no '.join(absent)}")
        if "deb" not in fields["types"].split():
            continue
        for uri in fields["uris"].split():
            for suite in fields["suites"].split():
                signed_by = fields.get("signed-by") or None
                trusted = _yes(fields.get("trusted", ""))
                yield Entry(file, masked(uri), suite, signed_by, trusted=trusted)


def _fields(stanza: str) -> dict[str, str]:
    folded = re.findall(r"^([^\s:]+):[ \t]*(.*(?:\n[ \t].*)*)", stanza, re.MULTILINE)
    return {name.lower(): _unfolded(value) for name, value in folded}


def _unfolded(value: str) -> str:
    """A key inside the file stands indented, its blank line as a dot."""
    lines = [line.strip() for line in value.strip().splitlines()]
    return "\n".join("" if line == "." else line for line in lines)


def fresh(entries: list[Entry], lists: Path, now: float) -> dict[str, bool]:
    """Whether all of each source's indexes were fetched, or found to be the newest, lately.

    The time is the inode's change: apt renames the index whenever it asks, but sets its
    modification to the server's date.
    """
    found: dict[str, bool] = {}
    for entry in entries:
        base = index_name(entry.uri, entry.suite)
        paths = [lists / f"{base}{kind}" for kind in KINDS]
        # Of a source in a folder apt keeps a link, which it makes anew.
        times = [path.lstat().st_ctime for path in paths if exists(path)]
        uri = entry.uri.rstrip("/")
        found[uri] = found.get(uri, True) and any(now - time < LATELY for time in times)
    return found


def index_name(uri: str, suite: str) -> str:
    """How apt names a source's index, without the last word (debReleaseIndex, URItoFileName)."""
    base = uri if uri.endswith("/") else uri + "/"
    if suite.endswith("/"):
        base += "" if suite == "/" else suite
    else:
        base += f"dists/{suite}/"
    rest = base.partition(":")[2]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = host.rpartition("@")[2] + slash + path
    return "".join(_quote(character) for character in rest).replace("/", "_")


def _quote(character: str) -> str:
    return f"%{ord(character):02x}" if character in QUOTED else character
