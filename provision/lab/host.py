"""The life of a lab host: up, down, find, status."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from provision.lab import access, cgroups, furnish, hardware, repository
from provision.lab.base import base
from provision.lab.record import Record, folder
from provision.lab.requirements import install_requirements, unavailable
from provision.lab.store import (
    LabError,
    Say,
    boot_id,
    lab_dir,
    locked,
    poll,
    private_dir,
    run,
    start_ticks,
)
from provision.lab.supervise import signal_guest

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
PORTS = range(2200, 3200)
STOP_SECONDS = 30.0
PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabSpec:
    """What a lab host should be; `memory` is a limit in bytes."""

    name: str
    suite: Literal["bookworm", "trixie"] = "bookworm"
    hardware: str = "rtxpro6000-8x"
    memory: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LabHost:
    """A lab host: `ssh -F ssh_config name` enters it; `repository` is the URL its apt uses."""

    name: str
    suite: str
    hardware: str
    running: bool
    ssh_config: Path
    port: int
    repository: str
    key_fingerprint: str
    keyring_sha256: str
    root: Path
    console: Path


def up(spec: LabSpec, *, fresh: bool = False, say: Say) -> LabHost:
    """Start a host, building what is missing; returns when it answers an authenticated SSH.

    `fresh` throws away what the host had become. A host that runs is left alone.
    """
    _usable(spec)
    install_requirements(say)
    description = hardware.load(spec.hardware)
    lower = base(spec.suite, say)
    with locked(f"host-{spec.name}"):
        record = Record.find(spec.name)
        fresh = fresh or record is None or not record.host_key  # without a key: left half made
        if record and not fresh:
            _same(record, spec)
            if record.running:
                access.await_answer(record)
                return _host(record)
        _clear(spec.name, record)
        if record is None or fresh:
            shutil.rmtree(folder(spec.name), ignore_errors=True)
            record = _new(spec, lower)
        record = _start(record, description, say)
        access.await_answer(record)
        return _host(record)


def down(name: str, *, discard: bool = False) -> bool:
    """Stop a host, and with `discard` remove it; False when there was none."""
    with locked(f"host-{name}"):
        record = Record.find(name)
        if record is None:
            return False
        _clear(name, record, kill=discard)
        if discard:
            shutil.rmtree(folder(name))
        return True


def find(name: str) -> LabHost | None:
    """A host that was set up, running or not."""
    record = Record.find(name)
    return None if record is None else _host(record)


def status() -> list[LabHost]:
    """All hosts that were set up, by name."""
    return [_host(record) for record in Record.every()]


def _usable(spec: LabSpec) -> None:
    reason = unavailable()
    if reason:
        raise LabError(f"no lab host can stand here: {reason}")
    if not NAME.fullmatch(spec.name):
        raise LabError(
            f"{spec.name!r} can't name a lab host", hint="use letters a-z, digits and dashes"
        )
    if spec.suite not in repository.DISTRIBUTIONS:
        known = ", ".join(repository.DISTRIBUTIONS)
        raise LabError(f"no lab host of suite {spec.suite!r}", hint=f"there are: {known}")


def _same(record: Record, spec: LabSpec) -> None:
    for field in dataclasses.fields(spec):
        had, wanted = getattr(record, field.name), getattr(spec, field.name)
        if had != wanted:
            raise LabError(
                f"lab host {spec.name} stands with {field.name} {had}, not {wanted}",
                hint="start it fresh, or keep its settings",
            )


def _new(spec: LabSpec, lower: Path) -> Record:
    """Set up a host that never booted: ports, repository, identity."""
    home = private_dir(folder(spec.name))
    with locked("ports"):
        port, repository_port = _free_ports()
        record = Record(
            name=spec.name,
            suite=spec.suite,
            hardware=spec.hardware,
            memory=spec.memory,
            base=str(lower),
            port=port,
            repository_port=repository_port,
        )
        record.save()
    for layer in ("upper", "work", "root"):
        (home / layer).mkdir(exist_ok=True)
    furnish.lend_archives(home / "upper", spec.suite)
    with _mounted(record) as root:
        host_key = furnish.identify(root, spec.name, port)
    record = dataclasses.replace(record, host_key=host_key)
    record.save()
    access.write_config(record)
    return record


def _start(record: Record, description: hardware.Hardware, say: Say) -> Record:
    """Mount, equip and boot; the record then names the supervisor."""
    published = repository.publish(
        record.folder / "repository", record.suite, record.repository_port
    )
    _mount(record)
    furnish.equip(record.root, description)
    say(f"lab: booting {record.name} ({record.suite}, {record.hardware}, simulated)")
    with (record.folder / "console").open("ab") as console:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "provision.lab.supervise", record.name],
            cwd=PROJECT,
            env={**os.environ, "FIRSTLIGHT_LAB_DIR": str(lab_dir())},
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
        )
    record = dataclasses.replace(
        record,
        repository_path=published.path,
        key_fingerprint=published.key_fingerprint,
        keyring_sha256=published.keyring_sha256,
        supervisor=supervisor.pid,
        supervisor_started=start_ticks(supervisor.pid) or 0,
        machine_boot=boot_id(),
    )
    record.save()
    return record


def _clear(name: str, record: Record | None, *, kill: bool = False) -> None:
    """Stop what runs, and remove what a killed session left: processes, groups, mounts."""
    if record and record.running:
        with contextlib.suppress(ProcessLookupError):
            if not (kill and signal_guest(record.supervisor, signal.SIGKILL)):
                os.kill(record.supervisor, signal.SIGTERM)
            if not poll(STOP_SECONDS, lambda: not record.running):
                os.kill(record.supervisor, signal.SIGKILL)
                poll(STOP_SECONDS, lambda: not record.running)
    cgroups.remove(name)
    root = folder(name) / "root"
    while os.path.ismount(root):
        run(["umount", root], what=f"unmounting {root}")
    if record:
        furnish.harvest_archives(folder(name) / "upper", record.suite)


def _mount(record: Record) -> None:
    home = record.folder
    layers = f"lowerdir={record.base},upperdir={home}/upper,workdir={home}/work"
    run(["mount", "-t", "overlay", "overlay", "-o", layers, record.root], what="mounting the root")


@contextlib.contextmanager
def _mounted(record: Record) -> Iterator[Path]:
    _mount(record)
    try:
        yield record.root
    finally:
        run(["umount", record.root], what="unmounting the root")


def _free_ports() -> tuple[int, int]:
    taken = {port for record in Record.every() for port in (record.port, record.repository_port)}
    free: list[int] = []
    for port in PORTS:
        if port in taken:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free.append(port)
        if len(free) == 2:
            return free[0], free[1]
    raise LabError("no free port left for a lab host", hint="discard hosts that aren't needed")


def _host(record: Record) -> LabHost:
    return LabHost(
        name=record.name,
        suite=record.suite,
        hardware=record.hardware,
        running=record.running,
        ssh_config=record.folder / "ssh_config",
        port=record.port,
        repository=f"http://127.0.0.1:{record.repository_port}{record.repository_path}",
        key_fingerprint=record.key_fingerprint,
        keyring_sha256=record.keyring_sha256,
        root=record.root,
        console=record.folder / "console",
    )
