"""What is said to a host over a transport: the package and a request in, JSON lines out."""

from __future__ import annotations

import base64
import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from provision import events, trials
from provision.errors import ProvisionError, shown
from provision.transport import LIMIT, Transport

HERE = Path(__file__).parent
PROBE_DEADLINE = 60.0
"""Seconds for the probe, whose collectors each have half of that."""
SIMULATE_DEADLINE = 180.0
ASK_DEADLINE = 30.0
PUT_DEADLINE = 600.0
PART = LIMIT // 2
"""Bytes that are fetched at a time: in base64, with room to spare within an answer."""
SILENCE = 30.0
"""Seconds without a word, heartbeats included, after which a followed run's connection is dead."""
DEPTH = 20
"""Mappings and lists within each other; the deepest answer of a host has nine."""

BOOTSTRAP = (
    "import os,sys;r=sys.stdin.buffer;any(l==b'firstlight\\n' for l in iter(r.readline,b''));"
    "z=r.read(int.from_bytes(r.read(8),'big'));"
    "f=os.memfd_create('code');os.write(f,z);sys.path.insert(0,f'/proc/self/fd/{f}');"
    "from provision.remote.entry import main;main(r,z)"
)
"""Reads the package into memory and imports from there: nothing is left on the host.

A password that sudo did not ask for stands before the first frame: lines are passed over up to
the mark.
"""
MARK = b"firstlight\n"
ARGV = ("/usr/bin/python3", "-I", "-c", BOOTSTRAP)
"""The system's own Python: what a user's PATH finds first may be a conda environment."""


@cache
def package() -> bytes:
    """The code that runs on hosts."""
    return zipped([HERE])


def zipped(rooms: Sequence[Path]) -> bytes:
    """The remote packages of these rooms as a zip; the same bytes for the same code."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for room in rooms:
            for path in [room / "__init__.py", *sorted((room / "remote").rglob("*.py"))]:
                entry = zipfile.ZipInfo(str(path.relative_to(HERE.parent)))
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def probe(transport: Transport, query: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a host what it is: the facts' JSON."""
    return _ask(transport, {"do": "probe", "query": query}, deadline=PROBE_DEADLINE)


def simulate(transport: Transport, transactions: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Ask apt what each transaction would do; by the transaction's words."""
    request = {"do": "simulate", "transactions": [list(argv) for argv in transactions]}
    return _ask(transport, request, deadline=SIMULATE_DEADLINE)


def lacking(transport: Transport, sha256s: Sequence[str]) -> list[str]:
    """Of these files, those that were not uploaded yet."""
    request = {"do": "lacking", "sha256s": list(sha256s)}
    said = _ask(transport, request, deadline=ASK_DEADLINE)
    return [str(sha256) for sha256 in _list(transport, request, said, "lacking")]


def put(transport: Transport, sha256: str, content: bytes) -> None:
    """Upload a file, which the host keeps by its hash."""
    _ask(transport, {"do": "put", "sha256": sha256}, content, deadline=PUT_DEADLINE)


def get(transport: Transport, path: str) -> bytes:
    """Fetch a file of the host's. Raises ProvisionError when it is not there."""
    parts: list[bytes] = []
    size = 1
    while (have := sum(map(len, parts))) < size:
        request = {"do": "get", "path": path, "from": have, "bytes": PART}
        said = _ask(transport, request, deadline=PUT_DEADLINE)
        content, whole = said.get("content"), said.get("size")
        if not isinstance(content, str) or not isinstance(whole, int):
            raise ProvisionError(f"{transport.host}: {path}: can't be fetched: {shown(said)}")
        size = whole
        parts.append(base64.b64decode(content))
        if size and not parts[-1]:
            raise ProvisionError(f"{transport.host}: {path}: ends before its end")
    return b"".join(parts)


def apply(transport: Transport, order: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Start a round on the host and follow it: its events."""
    return _follow(transport, {"do": "apply", "round": order})


def follow(
    transport: Transport, run: str, *, events: int = 0, lines: int | None = 0
) -> Iterator[dict[str, Any]]:
    """Follow a run that was started before, after the events and output lines that are known.

    None: only the lines that are still to come.
    """
    request = {"do": "follow", "run": run, "events": events, "lines": lines}
    return _follow(transport, request)


def cancel(transport: Transport, run: str, by: str) -> bool:
    """Ask a run to stop before its next change; False when it is over, or another goes on."""
    request = {"do": "cancel", "run": run, "by": by}
    return _ask(transport, request, deadline=ASK_DEADLINE).get("cancelled") is True


def history(transport: Transport, runs: int) -> dict[str, Any]:
    """The journal's `events` of the latest runs, which one is `running`, and this `boot`."""
    request = {"do": "history", "runs": runs}
    said = _ask(transport, request, deadline=ASK_DEADLINE)
    events = _list(transport, request, said, "events")
    return {**said, "events": [event for event in events if isinstance(event, dict)]}


def attempt(transport: Transport, python: str) -> dict[str, Any]:
    """Have the host's GPUs work, with an interpreter that has torch: the trials' JSON."""
    return _ask(transport, trials.order(python), deadline=trials.deadline())


def _frames(request: Mapping[str, Any], *more: bytes) -> bytes:
    parts = (package(), json.dumps(request).encode(), *more)
    return MARK + b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _ask(
    transport: Transport, request: Mapping[str, Any], *more: bytes, deadline: float
) -> dict[str, Any]:
    result = transport.run(ARGV, _frames(request, *more), deadline=deadline, root=True)
    if result.exit:
        raise ProvisionError(
            f"{transport.host}: the {request['do']} failed: {_last(result.err)}",
            hint=_python_hint(result.err),
        )
    return _event(transport.host, result.out)


def _list(
    transport: Transport, request: Mapping[str, Any], said: Mapping[str, Any], name: str
) -> list[Any]:
    value = said.get(name)
    if not isinstance(value, list):
        raise ProvisionError(
            f"{transport.host}: asked for {request['do']}: {name}: expected a list, "
            f"got {shown(value)}"
        )
    return value


def _follow(transport: Transport, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for line in transport.follow(ARGV, _frames(request), silence=SILENCE):
        event = _event(transport.host, line)
        if wrong := events.fault(event):
            raise ProvisionError(
                f"{transport.host}: what it says of its run can't be understood: {wrong}",
                hint="a run of another version of this tool may be going on; its log on the host "
                "lies in /var/log/firstlight",
            )
        yield event


def _event(host: str, line: str) -> dict[str, Any]:
    try:
        event = _clean(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise ProvisionError(
            f"{host}: answered {line[:80]!r} instead of JSON",
            hint="a login script that prints to non-interactive shells does this",
        ) from error
    if not isinstance(event, dict):
        raise ProvisionError(f"{host}: answered {line[:80]!r}, expected a JSON mapping")
    if event.get("event") == "error":
        raise ProvisionError(f"{host}: {event.get('reason') or 'failed and gave no reason'}")
    return event


def _clean(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON
    """JSON as everything here can work with it.

    A file name that is no UTF-8 comes as lone surrogates, which can't be written anywhere. Raises
    ValueError for what no answer of ours has: depths and numbers without an end.
    """
    if depth > DEPTH:
        raise ValueError("nested too deeply")
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case float() if not math.isfinite(value):
            raise ValueError("a number without an end")
        case int() if abs(value) >= 2**63:
            raise ValueError("a number without an end")
        case dict():
            return {_clean(k): _clean(part, depth + 1) for k, part in value.items()}
        case list():
            return [_clean(part, depth + 1) for part in value]
    return value


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


def _python_hint(text: str) -> str:
    if "not found" in text:
        return "the host needs python3: apt-get install python3-minimal"
    if "sudo" in text:
        return "the user needs sudo without a password, or log in as root"
    return ""
