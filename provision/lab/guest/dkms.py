"""Simulated DKMS: "builds" a module for every kernel whose headers are installed."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import mok, state

TREE = Path("/var/lib/dkms")
FAILS = Path("/etc/lab/dkms-fails")
"""While this file exists nothing builds; what it holds is the compiler's complaint."""
SLOW = Path("/etc/lab/dkms-slow")
"""The seconds that a build takes; a real one takes a minute or two."""

COMPLAINT = (
    "error: implicit declaration of function 'simulated' [-Werror=implicit-function-declaration]"
)
BUILD, AUTOINSTALL = 10, 11
"""Exit codes of a failed build, and of autoinstall after one."""

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
        return _autoinstall([kernel] if kernel else state.kernels())
    if command in ("build", "install"):
        name, _, version = module.partition("/")
        return _build(name, version, kernel or state.running_kernel(), required=True)
    sys.stderr.write("Error! Unknown action specified (simulated dkms)\n")
    return 1


def _added() -> Iterator[tuple[str, str]]:
    for path in sorted(TREE.glob("*/*")):
        if (Path("/usr/src") / f"{path.parent.name}-{path.name}").is_dir():
            yield path.parent.name, path.name


def _autoinstall(kernels: list[str]) -> int:
    failed = 0
    for kernel in kernels:
        for name, version in _added():
            code = _build(name, version, kernel)
            failed = failed or code
            if code:
                sys.stderr.write(
                    f"dkms autoinstall on {kernel}/{ARCHITECTURE} failed for {name}({code})\n"
                )
    if failed:
        sys.stderr.write(
            "Error! One or more modules failed to install during autoinstall.\n"
            "Refer to previous errors for more information.\n"
        )
    return AUTOINSTALL if failed else 0


def _status(module: str, kernel: str) -> int:
    for name, version in _added():
        if module and module not in (name, f"{name}/{version}"):
            continue
        built = _kernels(TREE / name / version)
        if not built:
            sys.stdout.write(f"{name}/{version}: added\n")
        for each in built:
            if kernel in ("", each):
                sys.stdout.write(f"{name}/{version}, {each}, {ARCHITECTURE}: installed\n")
    return 0


def _kernels(tree: Path) -> list[str]:
    """The kernels that a version is built for; `build` is where a failed one lies."""
    return sorted(path.name for path in tree.iterdir() if path.name != "build")


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
    licence = (
        (Path("/usr/src") / f"{name}-{version}" / "license").read_text(encoding="utf-8").strip()
    )
    if FAILS.exists():
        return _fail(name, version, kernel)
    if SLOW.exists():
        time.sleep(float(SLOW.read_text(encoding="utf-8")))
    text = state.module_text(version, licence, kernel)
    if state.hardware()["secure_boot"] != "unsupported":
        text += f"signer={mok.SUBJECT}\nsig_key={mok.own()}\n"
    kept = TREE / name / version / kernel / ARCHITECTURE
    for folder in (kept / "module", kept / "log"):
        folder.mkdir(parents=True, exist_ok=True)
    (kept / "module" / f"{name}.ko").write_text(text, encoding="utf-8")
    (kept / "log/make.log").write_text(
        f"simulated build of {name}/{version} for {kernel}\n", encoding="utf-8"
    )
    target = _installed(name, kernel)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{name}/{version}: installed for {kernel} ({ARCHITECTURE})\n")
    return 0


def _fail(name: str, version: str, kernel: str) -> int:
    log = TREE / name / version / "build/make.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    complaint = FAILS.read_text(encoding="utf-8").strip() or COMPLAINT
    source = f"/var/lib/dkms/{name}/{version}/build/{name}/nv.c"
    headers = f"/usr/src/linux-headers-{kernel}"
    log.write_text(
        f"DKMS (simulated) make.log for {name}/{version} for kernel {kernel} ({ARCHITECTURE})\n"
        f"{time.ctime()}\n"
        f"make[1]: Entering directory '{headers}'\n"
        f"  CC [M]  {source.removesuffix('c')}o\n"
        f"{source}:181:5: {complaint}\n"
        f"make[2]: *** [scripts/Makefile.build:243: {source.removesuffix('c')}o] Error 1\n"
        f"make[1]: *** [Makefile:1936: {log.parent}] Error 2\n"
        f"make[1]: Leaving directory '{headers}'\nmake: *** [Makefile:115: modules] Error 2\n",
        encoding="utf-8",
    )
    sys.stderr.write(
        f"Error! Bad return status for module build on kernel: {kernel} ({ARCHITECTURE})\n"
        f"Consult {log} for more information.\n"
    )
    return BUILD


def _remove(module: str, kernel: str) -> int:
    name, _, version = module.partition("/")
    tree = TREE / name / version
    for each in _kernels(tree) if tree.is_dir() else []:
        if kernel in ("", each):
            _installed(name, each).unlink(missing_ok=True)
            shutil.rmtree(tree / each)
    if not kernel:
        shutil.rmtree(tree, ignore_errors=True)
    return 0


def _installed(name: str, kernel: str) -> Path:
    return Path("/lib/modules") / kernel / "updates/dkms" / f"{name}.ko"
