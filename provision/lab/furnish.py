"""Makes a fresh root file system one host: identity, simulated hardware and its tools."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from provision.lab import flavours, repository, users
from provision.lab.base import SHADOWED, shadowed_paths
from provision.lab.driver_files import launcher
from provision.lab.hardware import Hardware
from provision.lab.record import Record
from provision.lab.store import lab_dir, locked, private_dir, run

GUEST = Path(__file__).parent / "guest"
ARCHIVES = Path("var/cache/apt/archives")
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"
TOOLS = {
    **dict.fromkeys(("modprobe", "rmmod", "insmod", "depmod", "lsmod", "modinfo"), "kmod"),
    **dict.fromkeys(("update-initramfs", "lsinitramfs"), "initramfs"),
    "lspci": "pci",
    "mokutil": "mokutil",
    "dmesg": "dmesg",
}
"""Simulated tool → the guest module with its code."""

APT_CONF = """# The lab keeps downloaded packages: the next fresh host needs no network for them.
Acquire::Languages "none";
APT::Keep-Downloaded-Packages "true";
Binary::apt::APT::Keep-Downloaded-Packages "true";
"""


def client_key() -> Path:
    """The private key that opens every lab host of this cache."""
    key = private_dir(lab_dir() / "identity") / "id_ed25519"
    with locked("identity"):
        if not key.with_suffix(".pub").exists():
            key.unlink(missing_ok=True)
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", key]
            run(make, what="making the lab's SSH key")
    return key


def dress(root: Path, flavour: str) -> None:
    """Make a mounted root say that it is an Ubuntu release, where the flavour is one."""
    says = flavours.os_release(flavour)
    if says:
        _write(root / "usr/lib/os-release", says)


def identify(root: Path, record: Record) -> str:
    """Give a mounted root its name, users and keys; returns its public host key."""
    name = record.name
    _write(root / "etc/hostname", f"{name}\n")
    _write(
        root / "etc/hosts",
        f"127.0.0.1 localhost {name}\n::1 localhost\n{record.address} {repository.SERVER}\n",
    )
    _write(root / "etc/machine-id", "")
    _write(root / "etc/default/locale", "LANG=C.UTF-8\n")
    _write(root / "etc/uv/uv.toml", "system-certs = true\n")
    _write(root / "etc/dpkg/dpkg.cfg.d/lab-unsafe-io", "force-unsafe-io\n")
    _write(root / "etc/apt/apt.conf.d/99lab", APT_CONF)
    mtab = root / "etc/mtab"
    mtab.unlink(missing_ok=True)
    mtab.symlink_to("../proc/self/mounts")
    _write(
        root / "etc/ssh/sshd_config.d/lab.conf",
        f"Port {record.port}\nListenAddress 127.0.0.1\nHostKey /{HOST_KEY}\n",
    )
    users.add(root, client_key().with_suffix(".pub").read_text(encoding="utf-8"))
    return make_host_key(root, name)


def make_host_key(root: Path, name: str) -> str:
    """A new host key in a mounted root, in place of the one there; returns its public part."""
    key = root / HOST_KEY
    for path in (key, key.with_suffix(".pub")):
        path.unlink(missing_ok=True)
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{name}", "-f", key]
    run(make, what="making the host key")
    return " ".join(key.with_suffix(".pub").read_text(encoding="utf-8").split()[:2])


def equip(root: Path, hardware: Hardware) -> None:
    """Put the simulated hardware and its tools into a mounted root, over what lies there."""
    library = root / "usr/lib/lab/guest"
    shutil.rmtree(library, ignore_errors=True)
    shutil.copytree(GUEST, library, ignore=shutil.ignore_patterns("__pycache__"))
    describe(root, hardware)
    _tool(root / "usr/local/sbin/lab-init", "boot")
    _tool(root / "usr/lib/lab/nvidia-installer", "installer")
    for path in shadowed_paths():
        aside = root / f"usr/lib/lab/real{path}"
        name = path.rpartition("/")[2]
        if aside.is_symlink() or name in SHADOWED:
            _tool(root / path.lstrip("/"), TOOLS[name])
    for kernel in hardware.kernels.installed:
        _write(root / f"boot/vmlinuz-{kernel}", f"simulated Linux {kernel}\n")
        _write(root / f"usr/lib/modules/{kernel}/modules.builtin", "# simulated\n")


def describe(root: Path, hardware: Hardware) -> None:
    """Tell a mounted root what it is made of."""
    machine = hardware.model_dump(mode="json")
    _write(root / "etc/lab/hardware.json", json.dumps(machine, indent=1) + "\n")


def lend_archives(upper: Path, suite: str) -> None:
    """Link downloaded Debian packages into an upper layer that isn't mounted yet."""
    target = upper / ARCHIVES
    target.mkdir(parents=True)
    for deb in _archive_cache(suite).glob("*.deb"):
        (target / deb.name).hardlink_to(deb)


def harvest_archives(upper: Path, suite: str) -> None:
    """Keep the Debian packages that a host downloaded; the lab's own ones change, so not them."""
    cache = _archive_cache(suite)
    own = repository.package_names()
    for deb in (upper / ARCHIVES).glob("*.deb"):
        kept = cache / deb.name
        if deb.name.partition("_")[0] not in own and not kept.exists():
            half = kept.with_suffix(".half")
            half.unlink(missing_ok=True)
            half.hardlink_to(deb)
            half.rename(kept)


def _archive_cache(suite: str) -> Path:
    return private_dir(lab_dir() / "archives" / suite)


def _tool(path: Path, module: str) -> None:
    _write(path, launcher(module), mode=0o755)


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
