"""A build's kept tree on the host: the unpacked source, and a toolkit that lacks nothing."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath

from provision.remote.command import Failed


def unpack(archive: Path, into: Path) -> None:
    """Unpack an sdist (PEP 625: one folder holds everything), once.

    It is there whole or not at all; what was built in it before stays. Raises Failed.
    """
    if into.is_dir():
        return
    part = into.with_name(f".{into.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as files:
            _extract(files, part)
    except (OSError, tarfile.TarError) as error:
        raise Failed(f"{archive.name} can't be unpacked: {error}") from error
    inside = list(part.iterdir())
    if len(inside) != 1:
        raise Failed(f"{archive.name} holds {len(inside)} things, expected one folder")
    inside[0].rename(into)
    part.rmdir()


def _extract(files: tarfile.TarFile, into: Path) -> None:
    """Files and folders alone, and none outside: Python 3.10's tarfile holds to neither itself."""
    for member in files:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts:
            raise Failed(f"the source has a file outside of it: {member.name!r}")
        if member.isdir():
            (into / path).mkdir(parents=True, exist_ok=True)
        elif member.isreg() and (content := files.extractfile(member)):
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            (into / path).write_bytes(content.read())
            (into / path).chmod(0o755 if member.mode & 0o111 else 0o644)
            os.utime(into / path, (member.mtime, member.mtime))


def link(home: Path, links: dict[str, str]) -> None:
    """Give a toolkit of the package index the names that compilers look for."""
    for name, to in links.items():
        path = home / name
        if not path.exists() and not path.is_symlink():
            path.symlink_to(to)
