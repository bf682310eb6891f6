"""The life of a lab host: up, down, freeze, find, status."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from provision.lab import access, cgroups, flavours, furnish, hardware, layers, repository
from provision.lab.base import base
from provision.lab.processes import kill_at_once, leader, signal_guest
from provision.lab.record import Record, folder
from provision.lab.requirements import install_requirements
from provision.lab.spec import LabHost, LabSpec, check_name, told
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

PORTS = range(2200, 3200)
STOP_SECONDS = 30.0
PROJECT = Path(__file__).parents[2]


def up(spec: LabSpec, *, fresh: bool = False, say: Say) -> LabHost:
    """Start a host, building what is missing; returns when it answers an authenticated SSH.

    `fresh` throws away what the host had become. A host that runs is left alone.
    """
    spec.check()
    install_requirements(say)
    machine = hardware.load(spec.hardware)
    if spec.layer is None:
        base(spec.base_suite, say)
    else:
        layers.fitting(spec.layer, spec.base_suite, spec.flavour)
    with locked(f"host-{spec.name}"):
        record = Record.find(spec.name)
        fresh = fresh or record is None or not record.host_key  # without a key: left half made
        if record and not fresh:
            spec.check_same(record)
            if record.running:
                access.await_answer(record)
                return told(record)
        if record and not fresh and os.path.ismount(record.root):
            say(f"lab: {record.name} went down, or what ran it was killed: it is booted as it was")
        _clear(spec.name, record)
        if record is None or fresh:
            _remove(spec.name)
            record = _new(spec, say)
        record = _start(record, machine, say)
        access.await_answer(record)
        return told(record)


def down(name: str, *, discard: bool = False) -> bool:
    """Stop a host, and with `discard` remove it; False when there was none."""
    with locked(f"host-{name}"):
        record = Record.find(name)
        if record is None:
            return False
        _clear(name, record, kill=discard)
        if discard:
            _remove(name)
        return True


def crash(name: str) -> None:
    """Kill every process of a running host at once; `up` boots it again.

    What the host wrote stays in the machine's page cache: a crash, not a power cut.
    """
    with locked(f"host-{name}"):
        record = Record.find(name)
        first = leader(record.supervisor) if record and record.running else None
        if record is None or first is None:
            raise LabError(f"lab host {name} isn't running", hint="bring it up first")
        kill_at_once(first)
        poll(STOP_SECONDS, lambda: not record.running)


def freeze(name: str, label: str) -> None:
    """Stop a host and make what it has become the layer `label`; the host itself is gone then.

    A layer of that label is replaced; hosts that stand on the old one keep it.
    """
    check_name(label)
    with locked(f"host-{name}"):
        record = Record.find(name)
        if record is None:
            raise LabError(f"no lab host {name}")
        _clear(name, record)
        with locked("records"):
            layers.keep(record, label)
        _remove(name)


def discard_layer(label: str) -> None:
    """Remove a layer that nothing stands on."""
    with locked("records"):
        layers.remove(label)


def find(name: str) -> LabHost | None:
    """A host that was set up, running or not."""
    record = Record.find(name)
    return None if record is None else told(record)


def status() -> list[LabHost]:
    """All hosts that were set up, by name."""
    return [told(record) for record in Record.every()]


def _new(spec: LabSpec, say: Say) -> Record:
    """Set up a host that never booted: port, what lies below, identity."""
    suite = spec.base_suite
    home = private_dir(folder(spec.name))
    with locked("records"):
        if spec.layer is None:
            lower = str(base(suite, say))
        else:
            lower = layers.fitting(spec.layer, suite, spec.flavour).lower
        record = Record(
            name=spec.name,
            suite=suite,
            hardware=spec.hardware,
            memory=spec.memory,
            base=lower,
            port=_free_port(),
            flavour=spec.flavour,
            layer=spec.layer,
        )
        record.save()
    for name in ("upper", "work", "root"):
        (home / name).mkdir(exist_ok=True)
    furnish.lend_archives(home / "upper", suite)
    with _mounted(record) as root:
        furnish.dress(root, spec.flavour)
        host_key = furnish.identify(root, record)
    record = dataclasses.replace(record, host_key=host_key)
    record.save()
    access.write_config(record)
    return record


def _start(record: Record, machine: hardware.Hardware, say: Say) -> Record:
    """Mount, equip and boot; the record then names the supervisor."""
    published = repository.publish(record.folder / "repository", record.distribution)
    _mount(record)
    furnish.equip(record.root, flavours.dressed(machine, record.distribution))
    say(f"lab: booting {record.name} ({record.distribution}, {record.hardware}, simulated)")
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


def _remove(name: str) -> None:
    """Remove a stopped host, and the layers that only it needed."""
    shutil.rmtree(folder(name), ignore_errors=True)
    with locked("records"):
        layers.sweep()


def _mount(record: Record) -> None:
    home = record.folder
    options = f"lowerdir={record.base},upperdir={home}/upper,workdir={home}/work"
    run(["mount", "-t", "overlay", "overlay", "-o", options, record.root], what="mounting the root")


@contextlib.contextmanager
def _mounted(record: Record) -> Iterator[Path]:
    _mount(record)
    try:
        yield record.root
    finally:
        run(["umount", record.root], what="unmounting the root")


def _free_port() -> int:
    """A port that no host of this cache has, and nothing on this machine uses now.

    Where the search begins depends on the cache: the hosts of another one may be down just now.
    """
    taken = {record.port for record in Record.every()}
    begin = zlib.crc32(str(lab_dir()).encode()) % len(PORTS)
    for port in itertools.chain(PORTS[begin:], PORTS[:begin]):
        if port in taken:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise LabError("no free port left for a lab host", hint="discard hosts that aren't needed")
