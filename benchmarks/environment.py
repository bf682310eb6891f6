"""Where the sides run: the peers' own environment, and what is said of the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from uv import find_uv_bin

ROOT = Path(__file__).parents[1]
REQUIREMENTS = Path(__file__).parent / "peers" / "requirements.txt"
OURS = ("invoke", "fabric", "paramiko", "pydantic", "rich")
PEERS = ("pyinfra", "ansible-core")


def peers() -> Path:
    """`bin` of an environment with the peers at exact versions; made under build/ if need be."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    folder = ROOT / "build" / "benchmarks" / f"peers-{digest}"
    python = folder / "bin" / "python"
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "--quiet", "--allow-existing", folder], check=True)
    sync = ("pip", "sync", "--quiet", "--compile-bytecode", "--python")
    subprocess.run([uv, *sync, python, REQUIREMENTS], check=True)
    return folder / "bin"


def plain(home: Path, cache: Path) -> dict[str, str]:
    """What every side finds in its environment: no agent, no settings of this machine's.

    Python's compiled modules go to `cache`, where the first, unmeasured run leaves them.
    """
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": os.environ["PATH"],
        "PYTHONPYCACHEPREFIX": str(cache),
    }


def about() -> dict[str, Any]:
    """Versions, machine and date."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": _revision(),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in OURS},
            **{name: _pinned(name) for name in PEERS},
            "openssh": _said("ssh", "-V").partition(",")[0],
        },
        "machine": {
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(
                os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1
            ),
            "load": os.getloadavg()[0],
        },
        "hosts": "lab hosts on the same machine; their GPUs and NVIDIA's packages are simulated",
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _pinned(name: str) -> str:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{name}=="))


def _revision() -> str:
    return _said("git", "-C", str(ROOT), "describe", "--always", "--dirty") or "unknown"


def _said(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
