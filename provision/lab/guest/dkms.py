"""Simulated DKMS: "builds" a module for every kernel whose headers are installed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from . import state

TREE = Path("/var/lib/dkms")
ARCHITECTURE = "x86_64"


def main(argv: list[str]) -> int:
    """Act on a DKMS command line: status, add, build, install, autoinstall, remove."""
    words = iter(argv[1:])
    command, module, kernel = "", "", ""
    options = {"-m": "module", "-v": "version", "-k": "kernel"}
    given: dict[str, str] = {}
    for word in words:
        if word in options:
            given[options[word]] = next(words, "")
        elif not word.startswith("-"):
            command, module = (command, word) if command else (word, "")
        elif word in ("-V", "--version"):
            command = "version"
    module = module or "/".join(filter(None, (given.get("module"), given.get("version"))))
    kernel = given.get("kernel", "")
    if command == "version":
        sys.stdout.write("dkms-3.99 (simulated by the lab host)\n")
        return 0
    if command == "status":
        return _status(module, kernel)
    if command == "add":
        name, _, version = module.partition("/")
        (TREE / name / version).mkdir(parents=True, exist_ok=True)
        return 0
    if command == "remove":
        return _remove(module, kernel)
    if command == "autoinstall":
        targets = [kernel] if kernel else state.kernels()
        return max((_build(*added, each) for added in _added() for each in targets), default=0)
    if command in ("build", "install"):
        name, _, version = module.partition("/")
        return _build(name, version, kernel or state.running_kernel(), required=True)
    sys.stderr.write("Error! Unknown action specified (simulated dkms)\n")
    return 1


def _added() -> Iterator[tuple[str, str]]:
    for path in sorted(TREE.glob("*/*")):
        if (Path("/usr/src") / f"{path.parent.name}-{path.name}").is_dir():
            yield path.parent.name, path.name


def _status(module: str, kernel: str) -> int:
    for name, version in _added():
        if module and module not in (name, f"{name}/{version}"):
            continue
        built = [path.name for path in sorted((TREE / name / version).iterdir())]
        if not built:
            sys.stdout.write(f"{name}/{version}: added\n")
        for each in built:
            if kernel in ("", each):
                sys.stdout.write(f"{name}/{version}, {each}, {ARCHITECTURE}: installed\n")
    return 0


def _build(name: str, version: str, kernel: str, *, required: bool = False) -> int:
    if not (Path("/lib/modules") / kernel / "build").exists():
        if required:
            sys.stderr.write(
                f"Error! Your kernel headers for kernel {kernel} cannot be found at "
                f"/lib/modules/{kernel}/build or /lib/modules/{kernel}/source.\n"
                f"Please install the linux-headers-{kernel} package or use the --kernelsourcedir "
                "option to tell DKMS where it's located.\n"
            )
            return 21
        sys.stdout.write(
            f"Module build for kernel {kernel} was skipped since the\n"
            "kernel headers for this kernel do not seem to be installed.\n"
        )
        return 0
    licence = (Path("/usr/src") / f"{name}-{version}" / "license").read_text().strip()
    text = (
        "simulated kernel module\n"
        f"version={version}\nlicense={licence}\nsrcversion=51301CA11AB0000000000000\n"
        f"vermagic={kernel} SMP preempt mod_unload modversions\n"
    )
    kept = TREE / name / version / kernel / ARCHITECTURE
    for folder in (kept / "module", kept / "log"):
        folder.mkdir(parents=True, exist_ok=True)
    (kept / "module" / f"{name}.ko").write_text(text)
    (kept / "log/make.log").write_text(f"simulated build of {name}/{version} for {kernel}\n")
    target = _installed(name, kernel)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    sys.stdout.write(f"{name}/{version}: installed for {kernel} ({ARCHITECTURE})\n")
    return 0


def _remove(module: str, kernel: str) -> int:
    name, _, version = module.partition("/")
    tree = TREE / name / version
    for path in sorted(tree.iterdir()) if tree.is_dir() else []:
        if kernel in ("", path.name):
            _installed(name, path.name).unlink(missing_ok=True)
            shutil.rmtree(path)
    if not kernel:
        shutil.rmtree(tree, ignore_errors=True)
    return 0


def _installed(name: str, kernel: str) -> Path:
    return Path("/lib/modules") / kernel / "updates/dkms" / f"{name}.ko"
