"""The apt repositories that a host sees: NVIDIA's, and the distribution's own archive.

Every host has a copy, served by its own supervisor on a loopback address of its own. The URL names
a host that each guest's /etc/hosts points there: it is the same for all of them, so that a layer
frozen on one host is right on another, and no host depends on another one's life.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from provision.lab import archive, flat, flavours, hardware, signing
from provision.lab.debs import Content, Package, text
from provision.lab.packages import every_package
from provision.lab.store import locked

SERVER = "packages.lab.test"
PORT = 2199
KEYRING_DEB = "cuda-keyring_1.1-1_all.deb"
ABOUT = (
    "Origin: NVIDIA\nLabel: NVIDIA CUDA\nArchitectures: amd64\n"
    "Description: simulated packages of the lab host\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """What is known of a repository once it is ready to be served."""

    key_fingerprint: str
    keyring_sha256: str


def vendor_url(distribution: str) -> str:
    """The URL of NVIDIA's repository, for guests only."""
    return f"http://{SERVER}:{PORT}/{distribution}/x86_64/"


def archive_url(distribution: str) -> str:
    """The URL of the distribution's own archive, for guests only."""
    return f"http://{SERVER}:{PORT}/archive/{distribution}/"


def package_names() -> frozenset[str]:
    """Names of all packages that come from the lab, not from Debian."""
    names = {"cuda-keyring"}
    for distribution in flavours.distributions():
        packages = [*_vendor(distribution), *archive.every_package(distribution)]
        names.update(package.name for package in packages)
    return frozenset(names)


def publish(root: Path, distribution: str) -> Published:
    """Write what a host of this distribution sees into `root`."""
    with locked("repository"):
        shutil.rmtree(root, ignore_errors=True)
        with signing.signer("signing-archive", "Lab Archive") as key:
            packages = archive.every_package(distribution)
            ready = flat.flat(f"archive-{distribution}", packages, archive.about(distribution), key)
            flat.copy(ready, root / "archive" / distribution)
            (root / "archive" / archive.KEYRING).write_bytes(key.public)
        with signing.signer("signing", "Lab Repository") as key:
            keyring = _keyring(distribution, key.public)
            ready = flat.flat(distribution, [*_vendor(distribution), keyring], ABOUT, key)
            flat.copy(ready, root / distribution / "x86_64")
    public = root / distribution / "x86_64" / f"{key.fingerprint[-8:].lower()}.pub"
    public.write_bytes(key.public)
    return Published(
        key_fingerprint=key.fingerprint,
        keyring_sha256=hashlib.sha256((ready / KEYRING_DEB).read_bytes()).hexdigest(),
    )


def _vendor(distribution: str) -> list[Package]:
    kernels = [flavours.kernel(distribution, name) for name in hardware.every_kernel()]
    return every_package(distribution, kernels)


def _keyring(distribution: str, public: bytes) -> Package:
    keyring = "usr/share/keyrings/cuda-archive-keyring.gpg"
    return Package(
        name="cuda-keyring",
        version="1.1-1",
        architecture="all",
        section="utils",
        summary="Key and source of the lab's repository",
        files={
            keyring: Content(data=public),
            f"etc/apt/sources.list.d/cuda-{distribution}-x86_64.list": text(
                f"deb [signed-by=/{keyring}] {vendor_url(distribution)} /\n"
            ),
            "etc/apt/preferences.d/cuda-repository-pin-600": text(
                "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
            ),
        },
    )
