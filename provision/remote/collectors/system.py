"""Which distribution, architecture and C library, and which python3 the system has."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import need
from provision.remote.command import Failed, Missing, output
from provision.remote.probe import Query

NAME = "os"
PYTHON = "/usr/bin/python3"


def collect(_query: Query) -> dict[str, Any]:
    version = parse_python(_python_version())
    return {
        **parse_os_release(need("/etc/os-release")),
        "arch": os.uname().machine,
        "libc": os.confstr("CS_GNU_LIBC_VERSION"),
        "python": {"version": version, "headers": _headers(version)},
        "systemd": Path("/run/systemd/system").is_dir(),
    }


def _python_version() -> str:
    """What the system's python3 calls itself; it need not be asked where it runs the probe."""
    if os.path.realpath(sys.executable) == os.path.realpath(PYTHON):
        return sys.version
    try:
        return output([PYTHON, "-V"])
    except Missing as missing:
        raise Failed(f"{PYTHON} does not run: {missing}") from missing


def _headers(version: str) -> bool:
    major, minor, *_ = version.split(".")
    return Path(f"/usr/include/python{major}.{minor}/Python.h").is_file()


def parse_python(text: str) -> str:
    """The full version in `sys.version` or `python3 -V`."""
    match = re.search(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", text)
    if not match:
        raise Failed(f"{PYTHON} does not state its version: {text.strip()!r}")
    return match[0]


def parse_os_release(text: str) -> dict[str, str]:
    """os-release(5); version and codename are '' where the distribution states none (sid)."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            fields[name] = "".join(shlex.split(value))
    if missing := [name for name in ("ID", "PRETTY_NAME") if name not in fields]:
        raise Failed(f"os-release lacks {' and '.join(missing)}")
    return {
        "id": fields["ID"],
        "version_id": fields.get("VERSION_ID", ""),
        "codename": fields.get("VERSION_CODENAME", ""),
        "name": fields["PRETTY_NAME"],
    }
