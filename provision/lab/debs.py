"""Writes Debian packages in memory: an ar archive of two tars. No dpkg-deb, no build root."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """One file of a package, or a symbolic link when `link` is set."""

    data: bytes = b""
    mode: int = 0o644
    link: str = ""


def text(data: str, *, mode: int = 0o644) -> Content:
    """A file from text."""
    return Content(data=data.encode(), mode=mode)


def script(data: str) -> Content:
    """An executable file from text."""
    return text(data, mode=0o755)


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One binary package; relations are written as in a control file."""

    name: str
    version: str
    summary: str
    architecture: str = "amd64"
    section: str = "libs"
    depends: tuple[str, ...] = ()
    recommends: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    installed_kib: int = 64
    files: Mapping[str, Content] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)

    @property
    def filename(self) -> str:
        """The name of the .deb; an epoch is left out, as Debian does."""
        return f"{self.name}_{self.version.rpartition(':')[2]}_{self.architecture}.deb"

    def control(self) -> str:
        """The control stanza, without a final blank line."""
        lines = [
            f"Package: {self.name}",
            f"Version: {self.version}",
            f"Architecture: {self.architecture}",
            "Maintainer: Lab Host <lab@example.invalid>",
            f"Installed-Size: {self.installed_kib}",
        ]
        relations = {
            "Depends": self.depends,
            "Recommends": self.recommends,
            "Provides": self.provides,
            "Conflicts": self.conflicts,
            "Replaces": self.replaces,
        }
        lines += [f"{name}: {', '.join(of)}" for name, of in relations.items() if of]
        lines += [
            f"Section: {self.section}",
            "Priority: optional",
            f"Description: {self.summary} (simulated)",
        ]
        return "\n".join(lines) + "\n"

    def deb(self) -> bytes:
        """The bytes of the .deb; the same package always gives the same bytes."""
        control = {"control": text(self.control())}
        control |= {name: script(body) for name, body in self.scripts.items()}
        conffiles = sorted(name for name in self.files if name.startswith("etc/"))
        if conffiles:
            control["conffiles"] = text("".join(f"/{name}\n" for name in conffiles))
        return _ar(
            ("debian-binary", b"2.0\n"),
            ("control.tar.gz", _tar(control)),
            ("data.tar.gz", _tar(self.files)),
        )


def _tar(files: Mapping[str, Content]) -> bytes:
    buffer = io.BytesIO()
    folders: set[str] = set()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, compresslevel=1) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path, content in sorted(files.items()):
            parts = path.split("/")
            for depth in range(1, len(parts)):
                folder = "/".join(parts[:depth])
                if folder not in folders:
                    folders.add(folder)
                    tar.addfile(_entry(folder, tarfile.DIRTYPE, 0o755))
            entry = _entry(path, tarfile.SYMTYPE if content.link else tarfile.REGTYPE, content.mode)
            entry.linkname = content.link
            entry.size = len(content.data)
            tar.addfile(entry, io.BytesIO(content.data))
    return buffer.getvalue()


def _entry(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(f"./{path}")
    entry.type = kind
    entry.mode = mode
    entry.uname = entry.gname = "root"
    return entry


def _ar(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO(b"!<arch>\n")
    buffer.seek(0, io.SEEK_END)
    for name, data in members:
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
        buffer.write(header.encode() + data + b"\n" * (len(data) % 2))
    return buffer.getvalue()
