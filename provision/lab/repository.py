"""The signed apt repository: packages built once per cache, index and keyring per host."""

from __future__ import annotations

import email.utils
import gzip
import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from provision.lab import hardware
from provision.lab.debs import Content, Package, text
from provision.lab.packages import every_package
from provision.lab.store import lab_dir, locked, private_dir, run, write_whole

DISTRIBUTIONS = {"bookworm": "debian12", "trixie": "debian13"}
KEYRING_DEB = "cuda-keyring_1.1-1_all.deb"


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A repository that is ready to be served from `root`."""

    root: Path
    path: str
    key_fingerprint: str
    keyring_sha256: str


def package_names() -> frozenset[str]:
    """Names of all packages that come from the lab, not from Debian."""
    names = {package.name for package in every_package(hardware.every_kernel())}
    return frozenset(names | {"cuda-keyring"})


def publish(root: Path, suite: str, port: int) -> Published:
    """Write the repository that a host of `suite` sees on `port` into `root`."""
    with locked("repository"):
        try:
            return _publish(root, DISTRIBUTIONS[suite], port)
        finally:
            run(["gpgconf", "--kill", "gpg-agent"], what="stopping gpg-agent", env=_gpg_env())


def _publish(root: Path, distribution: str, port: int) -> Published:
    path = f"/{distribution}/x86_64/"
    fingerprint, public = _key()
    pool = _pool()
    flat = root / distribution / "x86_64"
    shutil.rmtree(root, ignore_errors=True)
    flat.mkdir(parents=True)
    for deb in pool.glob("*.deb"):
        (flat / deb.name).hardlink_to(deb)
    keyring = _keyring(distribution, f"http://127.0.0.1:{port}{path}", public)
    deb_bytes = keyring.deb()
    (flat / KEYRING_DEB).write_bytes(deb_bytes)
    packages = (pool / "Packages").read_text() + _stanza(keyring, deb_bytes)
    _index(flat, packages.encode())
    (flat / f"{fingerprint[-8:].lower()}.pub").write_bytes(public)
    return Published(
        root=root,
        path=path,
        key_fingerprint=fingerprint,
        keyring_sha256=hashlib.sha256(deb_bytes).hexdigest(),
    )


def _gpg_env() -> dict[str, str]:
    return {**os.environ, "GNUPGHOME": str(private_dir(lab_dir() / "signing"))}


def _key() -> tuple[str, bytes]:
    """The signing key: fingerprint and public part; made on first use."""
    home = private_dir(lab_dir() / "signing")
    public = home / "public.gpg"
    if not public.exists():
        user = "Lab Repository (simulated) <lab@example.invalid>"
        base = ["gpg", "--batch", "--quiet"]
        make = ["--passphrase", "", "--quick-gen-key", user, "ed25519", "sign", "never"]
        for leftover in home.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        run([*base, *make], what="making the signing key", env=_gpg_env())
        half = home / "public.half"
        run([*base, "--output", half, "--export"], what="exporting the key", env=_gpg_env())
        half.rename(public)
    listing = run(
        ["gpg", "--batch", "--with-colons", "--list-keys"], what="reading the key", env=_gpg_env()
    )
    fingerprint = next(
        line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:")
    )
    return fingerprint, public.read_bytes()


def _pool() -> Path:
    """The folder with all packages that no host changes, and their index."""
    packages = every_package(hardware.every_kernel())
    debs = [(package, package.deb()) for package in packages]
    digest = hashlib.sha256(b"".join(hashlib.sha256(deb).digest() for _, deb in debs))
    folder = private_dir(lab_dir() / "pool")
    ready = folder / digest.hexdigest()[:12]
    if ready.is_dir():
        return ready
    half = folder / ".building"
    for outdated in folder.iterdir():
        shutil.rmtree(outdated)
    half.mkdir()
    for package, deb in debs:
        (half / package.filename).write_bytes(deb)
    (half / "Packages").write_text("".join(_stanza(package, deb) for package, deb in debs))
    half.rename(ready)
    return ready


def _stanza(package: Package, deb: bytes) -> str:
    return (
        f"{package.control()}Filename: ./{package.filename}\nSize: {len(deb)}\n"
        f"SHA256: {hashlib.sha256(deb).hexdigest()}\n\n"
    )


def _keyring(distribution: str, url: str, public: bytes) -> Package:
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
                f"deb [signed-by=/{keyring}] {url} /\n"
            ),
            "etc/apt/preferences.d/cuda-repository-pin-600": text(
                "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
            ),
        },
    )


def _index(flat: Path, packages: bytes) -> None:
    contents = {"Packages": packages, "Packages.gz": gzip.compress(packages, 1, mtime=0)}
    for name, data in contents.items():
        (flat / name).write_bytes(data)
    release = flat / "Release"
    write_whole(release, _release(contents.items()), mode=0o644)
    sign = ["gpg", "--batch", "--quiet", "--yes", "--digest-algo", "SHA512", "--output"]
    for name, mode in (("InRelease", "--clearsign"), ("Release.gpg", "--detach-sign")):
        run(
            [*sign, flat / name, "--armor", mode, release],
            what="signing the repository",
            env=_gpg_env(),
        )


def _release(contents: Iterable[tuple[str, bytes]]) -> str:
    sums = "".join(
        f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n" for name, data in contents
    )
    return (
        "Origin: NVIDIA\nLabel: NVIDIA CUDA\nArchitectures: amd64\n"
        "Description: simulated packages of the lab host\n"
        f"Date: {email.utils.formatdate(usegmt=True)}\nSHA256:\n{sums}"
    )
