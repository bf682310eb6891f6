"""The root file system that every lab host of a suite starts from: built once, then cached."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

from provision.lab.store import Say, lab_dir, locked, private_dir, run, run_long

PACKAGES = (
    *("openssh-server", "systemd", "systemd-sysv", "libpam-systemd", "dbus", "python3", "sudo"),
    *("ca-certificates", "iproute2", "procps", "curl", "gpg", "kmod", "less", "binutils"),
    *("unattended-upgrades", "apt-utils"),
)
SHADOWED = {
    **dict.fromkeys(("modprobe", "rmmod", "insmod", "depmod", "update-initramfs"), "/usr/sbin"),
    **dict.fromkeys(("lsinitramfs", "lspci", "mokutil", "dmesg"), "/usr/bin"),
}
"""Tools that a simulated one replaces. dpkg diverts them, so no package brings them back."""

KMOD_LINKS = ("lsmod", "modinfo")
"""These live in /usr/bin or /usr/sbin, depending on the suite: both are diverted."""

RECIPE = "2"
"""Changes with `_build`, so that older roots aren't taken for newer ones."""

ALONE = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--")
"""mmdebstrap mounts the machine's /dev and /sys: where nobody else sees them, and nothing stays."""

MOZILLA = Path("/usr/share/ca-certificates/mozilla")
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def extra_authorities() -> list[str]:
    """Certificates this machine trusts beyond Debian's own set: a guest meets the same proxies."""
    if not BUNDLE.exists():
        return []
    known = {
        _body(pem)
        for path in MOZILLA.glob("*.crt")
        for pem in CERTIFICATE.findall(path.read_text(encoding="utf-8"))
    }
    return [
        pem
        for pem in CERTIFICATE.findall(BUNDLE.read_text(encoding="utf-8"))
        if _body(pem) not in known
    ]


def _body(pem: str) -> str:
    return "".join(pem.split())


def shadowed_paths() -> list[str]:
    """Absolute guest paths of the tools that simulated ones replace."""
    links = [f"{folder}/{name}" for name in KMOD_LINKS for folder in ("/usr/bin", "/usr/sbin")]
    return [f"{folder}/{name}" for name, folder in SHADOWED.items()] + links


def base(suite: str, say: Say) -> Path:
    """The suite's root file system, read-only by convention; builds it in about a minute."""
    recipe = [RECIPE, suite, *PACKAGES, *shadowed_paths(), *extra_authorities()]
    key = hashlib.sha256("\n".join(recipe).encode()).hexdigest()[:12]
    folder = private_dir(lab_dir() / "base")
    ready = folder / f"{suite}-{key}"
    if ready.is_dir():
        return ready
    with locked(f"base-{suite}"):
        if ready.is_dir():
            return ready
        say(f"lab: building the {suite} root file system, once (about a minute)")
        half = folder / f".building-{suite}"
        shutil.rmtree(half, ignore_errors=True)
        try:
            _build(half, suite, say)
            half.rename(ready)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return ready


def _build(root: Path, suite: str, say: Say) -> None:
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale")]
    run_long(
        [
            *ALONE,
            *("mmdebstrap", "--format=directory", "--variant=minbase"),
            *("--skip=cleanup/apt/lists", "--dpkgopt=force-unsafe-io", *excluded),
            *(f"--include={','.join(PACKAGES)}", suite, root),
        ],
        what=f"building the {suite} root file system",
        say=say,
    )
    for path in shadowed_paths():
        aside = f"/usr/lib/lab/real{path}"
        (root / aside.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        divert = ["dpkg-divert", "--local", "--divert"]
        _inside(root, *divert, aside, "--rename", "--add", path)
        unmerged = path.removeprefix(
            "/usr"
        )  # the same file under the name that bookworm's kmod uses
        _inside(root, *divert, f"/usr/lib/lab/real{unmerged}", "--no-rename", "--add", unmerged)
    authorities = root / "usr/local/share/ca-certificates"
    for number, pem in enumerate(extra_authorities()):
        (authorities / f"lab-extra-{number}.crt").write_text(pem + "\n", encoding="utf-8")
    _inside(root, "update-ca-certificates")
    for timer in ("apt-daily.timer", "apt-daily-upgrade.timer"):
        (root / "etc/systemd/system" / timer).symlink_to("/dev/null")
    for key in root.glob("etc/ssh/ssh_host_*"):
        key.unlink()


def _inside(root: Path, *argv: str) -> None:
    run(["chroot", root, *argv], what=f"{argv[0]} in the root file system")
