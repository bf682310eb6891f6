"""Loading and unloading simulated kernel modules: what appears in /sys, /proc and /dev."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from . import mok, state


class RefusedError(Exception):
    """The simulated kernel refuses; the text is what modprobe would print."""


OPEN_TITLE = "Open Kernel Module for x86_64"
NULL_DEVICE = os.makedev(1, 3)
"""The device nodes lead nowhere, whatever real hardware the machine has."""


IN_TREE = {
    "nouveau": "kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz",
    "nova_core": "kernel/drivers/gpu/nova-core/nova_core.ko.xz",
}
"""Modules that come with the simulated kernel, and where they would lie."""


def in_tree(name: str) -> bool:
    """Whether a module comes with the simulated kernel."""
    return name in IN_TREE


def load(name: str) -> None:
    """Load a module, and those it needs."""
    if name in state.loaded():
        return
    kernel = state.running_kernel()
    if in_tree(name):
        _appear(name, {})
        return
    path = state.module_file(name, kernel)
    if path is None:
        raise RefusedError(f"FATAL: Module {name} not found in directory /lib/modules/{kernel}")
    if name in state.DEPENDENTS:
        load("nvidia")
    elif any(in_tree(other) for other in state.loaded()):
        raise RefusedError(f"ERROR: could not insert '{name}': No such device")
    fields = state.module_info(path)
    trusted = fields.get("sig_key") in mok.enrolled()
    if state.hardware()["secure_boot"] == "enabled" and not trusted:
        raise RefusedError(f"ERROR: could not insert '{name}': Key was rejected by service")
    if name == "nvidia":
        _drive(fields)
    _appear(name, fields)


def load_driver() -> None:
    """What udev does at boot: nouveau wins unless it is blacklisted, then nova, then nvidia's."""
    machine = state.hardware()
    if not machine["gpus"]:
        return
    for name in ("nouveau", "nova_core"):
        if machine[name] and not state.blacklisted(name):
            load(name)
            return
    if state.module_file("nvidia", state.running_kernel()) and not state.blacklisted("nvidia"):
        for name in ("nvidia", *state.DEPENDENTS):
            with contextlib.suppress(RefusedError):  # udev goes on without it
                load(name)


def unload(name: str) -> None:
    """Unload a module that no other one needs."""
    if name not in state.loaded():
        raise RefusedError(f"ERROR: Module {name} is not currently loaded")
    if name == "nvidia" and (users := _dependents()):
        raise RefusedError(f"ERROR: Module nvidia is in use by: {' '.join(users)}")
    if in_use(name):
        raise RefusedError(f"ERROR: Module {name} is in use")
    gone = [*_bound(name), *_nodes(name)]
    shutil.rmtree(state.MODULES / name)
    if name == "nvidia":
        shutil.rmtree(state.DRIVER)
    for path in gone:
        path.unlink(missing_ok=True)


def in_use(name: str) -> bool:
    """Whether another module, persistence mode or an open device file keeps a module."""
    if name == "nvidia" and (_dependents() or state.persistent()):
        return True
    nodes = {str(node) for node in _nodes(name)}
    return any(path in nodes for path in _open_files())


def _dependents() -> list[str]:
    return [name for name in state.DEPENDENTS if name in state.loaded()]


def _open_files() -> Iterator[str]:
    """The files that the host's processes have open."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # gone by now
            yield str(link.readlink())


def make_nodes(name: str) -> None:
    """Create the device files of a loaded module."""
    for node in _nodes(name):
        if not node.exists():
            os.mknod(node, stat.S_IFCHR | 0o666, NULL_DEVICE)
            node.chmod(0o666)


def _nodes(name: str) -> list[Path]:
    if name == "nvidia":
        count = len(state.visible_gpus())
        return [Path("/dev/nvidiactl"), *(Path(f"/dev/nvidia{number}") for number in range(count))]
    if name == "nvidia_uvm":
        return [Path("/dev/nvidia-uvm"), Path("/dev/nvidia-uvm-tools")]
    return []


def _appear(name: str, fields: dict[str, str]) -> None:
    folder = state.MODULES / name
    (folder / "parameters").mkdir(parents=True)
    values = {"initstate": "live", "refcnt": "0", "taint": "OE" if fields else ""}
    values |= {key: fields[key] for key in ("version", "srcversion") if key in fields}
    for key, value in values.items():
        (folder / key).write_text(f"{value}\n", encoding="utf-8")
    for driver in _bound(name):
        driver.symlink_to(f"/sys/bus/pci/drivers/{name}")
    make_nodes(name)


def _bound(name: str) -> list[Path]:
    """The `driver` links of the GPUs that a module drives."""
    others = state.on_the_bus() if in_tree(name) else []
    gpus = state.visible_gpus() if name == "nvidia" else others
    return [Path("/sys/bus/pci/devices") / gpu["slot"] / "driver" for gpu in gpus]


def _drive(fields: dict[str, str]) -> None:
    proprietary = fields["license"] == "NVIDIA"
    title = f"NVIDIA UNIX {'x86_64 Kernel Module' if proprietary else OPEN_TITLE}"
    state.DRIVER.mkdir(parents=True)
    (state.DRIVER / "version").write_text(
        f"NVRM version: {title}  {fields['version']}  Release Build  (simulated)\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14) \n",
        encoding="utf-8",
    )
    name = (state.hardware()["model"] or {}).get("name", "")
    for number, gpu in enumerate(state.visible_gpus()):
        folder = state.DRIVER / "gpus" / gpu["slot"]
        folder.mkdir(parents=True)
        (folder / "information").write_text(
            f"Model: \t\t {name}\nIRQ:   \t\t {100 + number}\nGPU UUID: \t {gpu['uuid']}\n"
            f"Bus Location: \t {gpu['slot']}\nDevice Minor: \t {number}\nGPU Firmware: \t "
            f"{fields['version']}\n",
            encoding="utf-8",
        )
