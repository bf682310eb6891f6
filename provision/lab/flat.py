"""A signed flat apt repository, built once per cache and copied for each host."""

from __future__ import annotations

import email.utils
import gzip
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from provision.lab.debs import Package
from provision.lab.signing import Signer
from provision.lab.store import lab_dir, private_dir, write_whole


def flat(name: str, packages: Sequence[Package], about: str, key: Signer) -> Path:
    """The folder with a repository of these packages; `about` begins its Release file."""
    debs = [(package, package.deb()) for package in packages]
    marks = [about, key.fingerprint, *(hashlib.sha256(deb).hexdigest() for _, deb in debs)]
    digest = hashlib.sha256("\n".join(marks).encode()).hexdigest()[:12]
    folder = private_dir(lab_dir() / "pools" / name)
    ready = folder / digest
    if ready.is_dir():
        return ready
    half = folder / ".building"
    for outdated in folder.iterdir():
        shutil.rmtree(outdated)
    half.mkdir()
    for package, deb in debs:
        (half / package.filename).write_bytes(deb)
    _index(half, "".join(_stanza(package, deb) for package, deb in debs).encode(), about)
    key.sign(half / "Release")
    half.rename(ready)
    return ready


def copy(ready: Path, target: Path) -> None:
    """A host's own copy: the packages are linked, and the indexes are its own to spoil."""
    target.mkdir(parents=True)
    for path in ready.iterdir():
        if path.suffix == ".deb":
            (target / path.name).hardlink_to(path)
        else:
            shutil.copy2(path, target / path.name)


def _stanza(package: Package, deb: bytes) -> str:
    return (
        f"{package.control()}Filename: ./{package.filename}\nSize: {len(deb)}\n"
        f"SHA256: {hashlib.sha256(deb).hexdigest()}\n\n"
    )


def _index(folder: Path, packages: bytes, about: str) -> None:
    contents = {"Packages": packages, "Packages.gz": gzip.compress(packages, 1, mtime=0)}
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    sums = "".join(
        f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n"
        for name, data in contents.items()
    )
    release = f"{about}Date: {email.utils.formatdate(usegmt=True)}\nSHA256:\n{sums}"
    write_whole(folder / "Release", release, mode=0o644)
