"""Asks nvidia-smi once for all who want its XML at the same time."""

from __future__ import annotations

import re
import threading
from concurrent.futures import Future

from provision.remote.command import Output, run

TIMEOUT = 15.0
"""Seconds; a healthy nvidia-smi takes up to a few without persistence mode."""

_lock = threading.Lock()
_under_way: list[Future[Output]] = []


def query() -> Output:
    """What `nvidia-smi -q -x` says; whoever asks while it runs shares that answer."""
    with _lock:
        first = not _under_way
        if first:
            _under_way.append(Future())
        answer = _under_way[0]
    if first:
        _ask(answer)
    return answer.result()


def _ask(answer: Future[Output]) -> None:
    try:
        answer.set_result(run(["nvidia-smi", "-q", "-x"], timeout=TIMEOUT))
    except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it, whatever it is
        answer.set_exception(error)
    finally:
        _under_way.clear()


def message(said: Output) -> str:
    """The first sentence that is not XML; '' where all is XML."""
    lines = (line.strip() for line in f"{said.out}\n{said.err}".splitlines())
    return next((line for line in lines if " " in line and not line.startswith("<")), "")


def driver_version(text: str) -> str | None:
    """The driver's version, even from XML that is cut short.

    From branch 610 on nvidia-smi's table calls it KMD version; its XML may follow.
    """
    match = re.search(r"<(driver|kmd)_version>\s*([\d.]+)\s*</\1_version>", text)
    return match[2] if match else None


def cuda_version(text: str) -> str | None:
    """The newest CUDA that the driver itself runs: no toolkit's version. As above."""
    match = re.search(r"<cuda(_umd|)_version>\s*([\d.]+)\s*</cuda\1_version>", text)
    return match[2] if match else None
