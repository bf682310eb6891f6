"""The one entry: reads a request from standard input, answers in JSON lines.

The input is framed, because a password prompt, the code and the data share it: eight bytes of
length (big-endian), then that many bytes. The first frame is this package as a zip, which the
bootstrap has already read; the second is the request; `put` has a third.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from provision.remote.command import Failed
from provision.remote.paths import BLOBS, BOOT_ID, has, private, replace


def main(frames: BinaryIO, package: bytes) -> None:
    """Answer one request."""
    request = json.loads(_frame(frames))
    try:
        _answer(request, frames, package)
    except BrokenPipeError:
        pass  # whoever asked is gone; the run goes on without a listener
    except Failed as failure:
        _say({"event": "error", "reason": str(failure)})
    # A collector that hangs has a thread that can't be joined.
    os._exit(0)


def _answer(request: Mapping[str, Any], frames: BinaryIO, package: bytes) -> None:
    """Import what one kind of request needs, and no more: it is compiled anew each time."""
    match request["do"]:
        case "probe":
            from provision.remote.collectors import COLLECTORS
            from provision.remote.probe import probe

            _say(probe(COLLECTORS, request["query"]))
        case "simulate":
            _say(_simulated(request["transactions"]))
        case "lacking":
            _say({"lacking": [sha256 for sha256 in request["sha256s"] if not has(sha256)]})
        case "put":
            _put(request["sha256"], _frame(frames))
        case "get":
            _get(request)
        case "apply":
            from provision.remote.apply import apply

            apply(package, request["round"], _say)
        case "follow":
            from provision.remote.apply import follow

            follow(request["run"], _say, events=request["events"], lines=request["lines"])
        case "cancel":
            from provision.remote.lock import cancel

            _say({"cancelled": cancel(request["run"], request["by"])})
        case "try":
            from provision.remote.trials import attempt

            _say(attempt(request["python"], request["script"], request["trials"]))
        case "history":
            from provision.remote.journal import latest
            from provision.remote.lock import going_on

            # Asked first: of a run that ends meanwhile the journal says so.
            now = {
                "running": going_on().get("run"),
                "boot": BOOT_ID.read_text(encoding="utf-8").strip(),
            }
            _say({"events": latest(request["runs"]), **now})


def _simulated(transactions: Sequence[Sequence[str]]) -> dict[str, Any]:
    """All at once: each takes a second or two, and none needs a lock."""

    from provision.remote.apt import simulate

    with ThreadPoolExecutor() as pool:
        answers = pool.map(simulate, transactions)
        return {" ".join(argv): said for argv, said in zip(transactions, answers, strict=True)}


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _frame(frames: BinaryIO) -> bytes:
    length = int.from_bytes(frames.read(8), "big")
    return frames.read(length)


def _get(request: Mapping[str, Any]) -> None:
    try:
        with Path(request["path"]).open("rb") as file:
            file.seek(request["from"])
            content = file.read(request["bytes"])
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise Failed(f"{request['path']}: {error.strerror}") from error
    _say({"size": size, "content": base64.b64encode(content).decode()})


def _put(sha256: str, content: bytes) -> None:
    if hashlib.sha256(content).hexdigest() != sha256:
        raise Failed(f"upload {sha256} arrived damaged")
    private(BLOBS)
    replace(BLOBS / sha256, content, 0o600)
    _say({"event": "stored"})
