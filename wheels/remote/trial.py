"""What a built wheel must show before it leaves the build host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from provision.remote import proof, record
from provision.remote.command import ENV, Failed
from provision.remote.elf import abi, dynamic, extensions, fatbin
from provision.remote.elf.sections import Fault, NotElf
from wheels.remote import label

IMPORT_TIMEOUT = 300.0
"""Seconds that an import may take."""
KERNELS_TIMEOUT = 900.0
"""Seconds that the kernels' test on a GPU may take."""


def inspect(wheel: Path, order: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    """Unpack the wheel and hold it to what was ordered; what it is, for its manifest.

    Raises Failed with all that is wrong.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    with zipfile.ZipFile(wheel) as files:
        files.extractall(scratch)
    (info,) = scratch.glob("*.dist-info")
    metadata = (info / "METADATA").read_text(encoding="utf-8")
    beside = Path(order["site"])
    kernels = _archs(scratch)
    faults = [
        *_named(wheel.name, metadata, order),
        *record.faults(scratch),
        *_extension_faults(scratch, beside),
        *_lacking(kernels, order["archs"]),
        *_imports(scratch, order),
    ]
    if faults:
        raise Failed(f"{wheel.name} is not what was ordered: {'; '.join(faults)}")
    return {
        "requires": label.requires(metadata),
        "archs": sorted(kernels, key=lambda arch: [int(part) for part in arch.split(".")]),
        "glibc": _glibc(scratch),
        "kernels": _run_kernels(scratch, order),
    }


def _named(file: str, metadata: str, order: Mapping[str, Any]) -> Iterator[str]:
    version = f"{order['version']}+{order['label']}"
    if label.field(metadata, "Version") != version:
        yield f"its version is {label.field(metadata, 'Version')}, expected {version}"
    if file.split("-")[1] != version:
        yield f"its file name does not say {version}"
    for name, exact in order["pins"].items():
        if f"{name}=={exact}" not in label.requires(metadata):
            yield f"its metadata does not require {name}=={exact}"


def _extension_faults(scratch: Path, beside: Path) -> list[str]:
    """The wheel's extensions against torch and the libraries that they were built with.

    They are looked at as if installed: links to both sides' files, in one folder.
    """
    together = scratch.with_name(f"{scratch.name}-together")
    shutil.rmtree(together, ignore_errors=True)
    together.mkdir()
    for folder in (scratch, beside):
        for path in folder.iterdir():
            place = together / path.name
            if not place.is_symlink():
                place.symlink_to(path)
    found = abi.faults(together, gpus=None)
    shutil.rmtree(together)
    others = {path.name.partition("-")[0] for path in beside.glob("*.dist-info")}
    others -= {path.name.partition("-")[0] for path in scratch.glob("*.dist-info")}
    return [fault for fault in found if fault.partition(":")[0] not in others]


def _archs(scratch: Path) -> set[str]:
    """Compute capabilities that the wheel has machine code for."""
    found: set[str] = set()
    for path in scratch.rglob("*.so*"):
        try:
            fatbins = fatbin.read(path)
        except (NotElf, Fault):
            continue
        for one in fatbins:
            found |= {f"{arch.number // 10}.{arch.number % 10}" for arch in one.cubins}
    return found


def _lacking(have: Iterable[str], wanted: Sequence[str]) -> Iterator[str]:
    there = set(have)
    for arch in wanted:
        if arch not in there:
            said = ", ".join(sorted(there)) or "none"
            yield f"it has no kernels for {arch} (those there: {said})"


def _glibc(scratch: Path) -> str:
    """The least glibc that it runs on; '' where it needs none."""
    needs: list[tuple[int, ...]] = [()]
    for file in extensions.shared_objects(scratch):
        try:
            needs.append(dynamic.read(file.path).glibc)
        except (NotElf, Fault):
            continue
    return ".".join(map(str, max(needs)))


def _imports(scratch: Path, order: Mapping[str, Any]) -> Iterator[str]:
    statement = "; ".join(f"import {name}" for name in order["imports"])
    said = _python(scratch, order, ["-c", statement], IMPORT_TIMEOUT)
    if isinstance(said, str):
        yield f"{statement!r} {said}"


def _run_kernels(scratch: Path, order: Mapping[str, Any]) -> dict[str, Any]:
    """The kernels against their reference, where there is a GPU; why not, where there is none."""
    if not order["kernels"]:
        return {"skipped": "the recipe has no test of kernels"}
    gpus = proof.gpus()
    if not gpus:
        return {"skipped": "this host has no GPU"}
    script = scratch.with_name("kernels.py")
    script.write_text(order["kernels"], encoding="utf-8")
    said = _python(scratch, order, [str(script)], KERNELS_TIMEOUT)
    if isinstance(said, str):
        raise Failed(f"the kernels' test {said}")
    try:
        results = json.loads(said.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise Failed("the kernels' test ended without a result") from error
    return {"gpu": gpus[0], "results": results}


def _python(
    scratch: Path, order: Mapping[str, Any], words: list[str], timeout: float
) -> subprocess.CompletedProcess[str] | str:
    """Run the build environment's Python with the wheel's files; what is wrong, in words."""
    env = {**ENV, "PYTHONPATH": str(scratch), "HOME": os.environ.get("HOME", "/root")}
    argv = [order["python"], *words]
    try:
        said = subprocess.run(
            argv,
            env=env,
            cwd=scratch,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"does not end within {timeout:g} s"
    if said.returncode:
        lines = [line for line in said.stderr.splitlines() if line.strip()]
        last = re.sub(r"\s+", " ", lines[-1]) if lines else f"exits {said.returncode}"
        return f"fails: {last}"
    return said
