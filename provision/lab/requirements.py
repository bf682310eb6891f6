"""What the machine must bring for a lab host to stand on it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from provision.lab.store import LabError, Say, locked, run_long

COMMANDS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "gpg": "gpg",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""Command → the Debian package that brings it."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def missing_requirements() -> list[str]:
    """Debian packages that the lab needs and this machine lacks, sorted."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    lacking = {package for name, package in COMMANDS.items() if not shutil.which(name, path=path)}
    if not KEYRING.exists():
        lacking.add("debian-archive-keyring")
    return sorted(lacking)


def unavailable() -> str | None:
    """Why no lab host can stand here; None if one can (packages may still be missing)."""
    if sys.platform != "linux":
        return "a lab host needs Linux"
    if os.geteuid() != 0:
        return "a lab host needs root: it mounts, and it boots systemd"
    if os.uname().machine != "x86_64":
        return "a lab host needs an x86_64 machine"
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        if not Path("/run/systemd/system").is_dir():
            return "on cgroup v2 a lab host needs systemd as the machine's PID 1"
    elif not Path("/sys/fs/cgroup/systemd").is_dir():
        return "a lab host needs cgroup v2, or v1 with the hierarchy named systemd"
    if missing_requirements() and not shutil.which("apt-get"):
        return f"these are missing: {', '.join(missing_requirements())}"
    return None


def install_requirements(say: Say) -> None:
    """Install what is missing, after naming it; does nothing when all is there."""
    if not missing_requirements():
        return
    with locked("requirements"):  # apt itself would refuse a second one
        _install(missing_requirements(), say)


def _install(lacking: list[str], say: Say) -> None:
    if not lacking:  # somebody else has just done it
        return
    names = " ".join(lacking)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise LabError(f"the lab needs {names}", hint=f"install {names} as root, then repeat")
    say(f"lab: installing {names}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}
    run_long(["apt-get", "-q", "update"], what="apt-get update", say=say, env=env)
    install = ["apt-get", "-q", "-y", "--no-install-recommends", "install", *lacking]
    run_long(install, what=f"installing {names}", say=say, env=env)
    still = missing_requirements()
    if still:
        raise LabError(f"still missing after the installation: {' '.join(still)}")
