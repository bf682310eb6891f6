"""A host's control groups: by hand on v1 and hybrid machines, by systemd on v2 ones."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from provision.lab.store import LabError, lab_dir, poll, run

ROOT = Path("/sys/fs/cgroup")
HIERARCHIES = ("systemd", "unified", "memory", "pids")
ENTER = 'while [ "$1" != -- ]; do echo $$ >"$1"; shift; done; shift; exec "$@"'
"""sh: enters every cgroup.procs named before `--`, then becomes the command after it."""


def unified() -> bool:
    """True on a machine that has only cgroup v2."""
    return (ROOT / "cgroup.controllers").exists()


def scope(name: str) -> str:
    """The systemd scope of a host, on v2."""
    return f"firstlight-lab-{_own(name)}.scope"


def _trees(name: str) -> list[Path]:
    parents = [ROOT / hierarchy for hierarchy in HIERARCHIES]
    return [parent / "lab" / _own(name) for parent in parents if parent.is_dir()]


def _own(name: str) -> str:
    """Groups belong to the machine: a host of the same name in another cache has others."""
    return f"{name}-{hashlib.sha256(str(lab_dir()).encode()).hexdigest()[:8]}"


def prepare(name: str, memory: int | None, command: Sequence[str]) -> list[str]:
    """Fresh groups with a limit of `memory` bytes; returns the command that runs inside them.

    The v2 branch could not be tried on the machine this was written on (hybrid v1).
    """
    remove(name)
    if unified():
        limit = [] if memory is None else ["-p", f"MemoryMax={memory}", "-p", "MemorySwapMax=0"]
        options = ["--quiet", "--collect", f"--unit={scope(name)}", "-p", "Delegate=yes", *limit]
        return ["systemd-run", "--scope", *options, "--", *command]
    for tree in _trees(name):
        tree.mkdir(parents=True)
    if memory is not None:
        group = ROOT / "memory" / "lab" / _own(name)
        (group / "memory.limit_in_bytes").write_text(str(memory), encoding="utf-8")
        with contextlib.suppress(FileNotFoundError):  # without swap accounting
            (group / "memory.memsw.limit_in_bytes").write_text(str(memory), encoding="utf-8")
    entries = [str(tree / "cgroup.procs") for tree in _trees(name)]
    return ["/bin/sh", "-c", ENTER, "sh", *entries, "--", *command]


def remove(name: str) -> None:
    """Kill whatever still runs in the host's groups, and remove them.

    A group left over from an earlier boot stops the next one: nspawn can't chown it.
    """
    if unified():
        if (Path("/run/systemd/transient") / scope(name)).exists():
            run(["systemctl", "stop", scope(name)], what=f"stopping {scope(name)}")
        return
    for tree in _trees(name):
        if not poll(10, lambda tree=tree: _swept(tree)):  # type: ignore[misc]
            raise LabError(f"processes of lab host {name} survive SIGKILL in {tree}")
        with contextlib.suppress(OSError):
            tree.parent.rmdir()


def _swept(tree: Path) -> bool:
    """Kill and remove once; True when the tree is gone."""
    if not tree.is_dir():
        return True
    for folder, _, _ in os.walk(tree, topdown=False):
        with contextlib.suppress(FileNotFoundError):
            for pid in (Path(folder) / "cgroup.procs").read_text(encoding="utf-8").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not tree.is_dir()
