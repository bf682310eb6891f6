"""Builds the wheel of lab-kernels: a PEP 517 backend that compiles as torch's extensions do.

`build/build.ninja` has the text that `torch.utils.cpp_extension` writes, and the environment means
what it means there and in flash-attn's setup.py:

    CUDA_HOME                 the toolkit; /usr/local/cuda without it
    PYTORCH_NVCC              runs instead of CUDA_HOME/bin/nvcc; may be several words
    CXX                       compiles and links C++; c++ without it
    MAX_JOBS                  ninja's -j; what is not a number leaves the choice to ninja
    NVCC_THREADS              nvcc's --threads: architectures of a unit at a time; 4 without it
    LAB_KERNELS_ARCHS         compute capabilities; "9.0;12.0" without it. Cubins only, no PTX
    LAB_KERNELS_LOCAL_VERSION the local label of the wheel's version, inside and out

`build/` is kept: a build that was cut off goes on with the units that are missing. Standard library
only, Python 3.10 or newer; ninja must be on PATH.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

NAME = "lab_kernels"
VERSION = "1.0"
ROOT = Path(__file__).resolve().parent
LIBRARY = f"{NAME}/_kernels.so"

DEPENDENCIES = "--generate-dependencies-with-compile --dependency-output $out.d"

SUMMARY = "Fractional powers of functions of small matrices, on CUDA GPUs"
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the wheel, the first that a zip can tell: its bytes tell no clock."""


class Refused(SystemExit):
    """Ends the build with one message and exit code 1; build frontends show no traceback for it."""

    def __init__(self, message: str) -> None:
        super().__init__(f"lab-kernels: {message}")


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,  # noqa: ARG001  PEP 517's signature
    metadata_directory: str | None = None,  # noqa: ARG001
) -> str:
    """Compile, link and pack; return the wheel's file name.

    Raises Refused when a tool is missing, a variable makes no sense, or a command fails.
    """
    env = os.environ
    version = labelled(env.get("LAB_KERNELS_LOCAL_VERSION", ""))
    cuda_home = Path(env.get("CUDA_HOME") or "/usr/local/cuda")
    nvcc = cuda_home / "bin" / "nvcc"
    wanted = archs(env.get("LAB_KERNELS_ARCHS") or "9.0;12.0", known_archs(nvcc))
    compiler = env.get("CXX") or "c++"
    command = env.get("PYTORCH_NVCC") or str(nvcc)
    for what, words in (("nvcc", command), ("the C++ compiler", compiler), ("ninja", "ninja")):
        present(what, words)
    libraries = cuda_home / "lib64"
    if not (libraries / "libcudart.so").exists():
        raise Refused(f"{libraries}/libcudart.so is missing: link it to libcudart.so.N")

    build = ROOT / "build"
    sources = sorted(p for p in (ROOT / "csrc").iterdir() if p.suffix in {".cu", ".cpp"})
    objects = [build / "csrc" / f"{source.stem}.o" for source in sources]
    text = ninja_file(
        compiler=compiler,
        nvcc=command,
        include=cuda_home / "include",
        cuda_flags=[*wanted, "--threads", number("NVCC_THREADS", env.get("NVCC_THREADS") or "4")],
        steps=list(zip(sources, objects, strict=True)),
    )
    (build / "csrc").mkdir(parents=True, exist_ok=True)
    (build / "build.ninja").write_text(text, encoding="utf-8")
    run(["ninja", "-v", *jobs(env.get("MAX_JOBS", ""))], cwd=build)
    library = build / "_kernels.so"
    link = [*shlex.split(compiler), "-shared", *map(str, objects), "-o", str(library)]
    run([*link, f"-L{libraries}", "-lcudart"], cwd=build)

    files = {f"{NAME}/{p.name}": p.read_bytes() for p in sorted((ROOT / NAME).glob("*.py"))}
    files[LIBRARY] = library.read_bytes()
    file = f"{NAME}-{version}-{tag()}.whl"
    pack(Path(wheel_directory) / file, version, files)
    return file


def labelled(label: str) -> str:
    """The version with its local label, normalised as PEP 440 says: `1.0+cu131.torch2.9.1`.

    Raises Refused for a label that no version can have.
    """
    if not label:
        return VERSION
    if not re.fullmatch(r"[a-z0-9]+([-_.][a-z0-9]+)*", label, re.IGNORECASE | re.ASCII):
        raise Refused(
            f"LAB_KERNELS_LOCAL_VERSION is {label!r}: expected letters, digits and single dots"
        )
    return f"{VERSION}+{re.sub('[-_]', '.', label.lower())}"


def archs(text: str, known: Iterable[str]) -> list[str]:
    """What nvcc is told to make cubins, and no PTX, for "9.0;12.0".

    Raises Refused for an architecture that is not among the known, such as "sm_90".
    """
    flags = []
    for arch in filter(None, re.split(r"[;,\s]+", text)):
        match = re.fullmatch(r"(\d+)\.(\d)", arch, re.ASCII)
        digits = "".join(match.groups()) if match else ""
        if f"sm_{digits}" not in known:
            able = ", ".join(f"{sm[3:-1]}.{sm[-1]}" for sm in known)
            raise Refused(f"LAB_KERNELS_ARCHS has {arch!r}: this nvcc compiles for {able}")
        flags += ["-gencode", f"arch=compute_{digits},code=sm_{digits}"]
    if not flags:
        raise Refused(f'LAB_KERNELS_ARCHS is {text!r}: expected something like "9.0;12.0"')
    return flags


def known_archs(nvcc: Path) -> list[str]:
    """What nvcc compiles for: ["sm_75", …]. Raises Refused when there is no such nvcc."""
    if not os.access(nvcc, os.X_OK):
        raise Refused(f"there is no {nvcc}: set CUDA_HOME to a CUDA toolkit")
    asked = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise Refused(f"{nvcc} does not work: {asked.stderr.strip() or asked.returncode}")
    return asked.stdout.split()


def present(what: str, command: str) -> None:
    """Raise Refused unless the command's first word can be run."""
    words = shlex.split(command)
    if not words or not shutil.which(words[0]):
        raise Refused(
            f"{what} is not there: {command!r} can't be run; install it or put it on PATH"
        )


def number(variable: str, text: str) -> str:
    """The text, if it is a positive whole number. Raises Refused else."""
    if not re.fullmatch("[1-9][0-9]*", text):
        raise Refused(f"{variable} is {text!r}: expected a positive whole number")
    return text


def jobs(max_jobs: str) -> list[str]:
    """ninja's -j. As in torch nothing but a number sets it: without -j ninja obeys a jobserver."""
    return ["-j", number("MAX_JOBS", max_jobs)] if max_jobs.isdigit() else []


def ninja_file(
    *,
    compiler: str,
    nvcc: str,
    include: Path,
    cuda_flags: Sequence[str],
    steps: Iterable[tuple[Path, Path]],
) -> str:
    """The text of build.ninja, for (source, object) paths. The link is not ninja's, as in torch."""
    blocks = [
        ["ninja_required_version = 1.3", f"cxx = {compiler}", f"nvcc = {nvcc}"],
        [
            f"cflags = -fPIC -I{include}",
            "post_cflags = -O3 -std=c++17",
            f"cuda_cflags = -I{include} --compiler-options '-fPIC'",
            f"cuda_post_cflags = -O3 -std=c++17 {shlex.join(cuda_flags)}",
        ],
        [
            "rule compile",
            "  command = $cxx -MMD -MF $out.d $cflags -c $in -o $out $post_cflags",
            "  depfile = $out.d",
            "  deps = gcc",
        ],
        [
            "rule cuda_compile",
            "  depfile = $out.d",
            "  deps = gcc",
            f"  command = $nvcc {DEPENDENCIES} $cuda_cflags -c $in -o $out $cuda_post_cflags",
        ],
        [
            f"build {escaped(made)}: {'cuda_compile' if source.suffix == '.cu' else 'compile'} "
            f"{escaped(source)}"
            for source, made in steps
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def escaped(path: Path) -> str:
    """A path as one word of a ninja file."""
    return re.sub(r"([$ :])", r"$\1", str(path))


def run(argv: Sequence[str], cwd: Path) -> None:
    """Run a command, its output shown. Raises Refused when it fails."""
    code = subprocess.run(argv, cwd=cwd, check=False).returncode
    if code:
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise Refused(f"{argv[0]} {ended}; what was compiled stays in {cwd} for the next build")


def tag() -> str:
    """The wheel's tag: a library that ctypes loads is for every Python on this platform."""
    return f"py3-none-{re.sub('[-.]', '_', sysconfig.get_platform())}"


def pack(path: Path, version: str, files: Mapping[str, bytes]) -> None:
    """Write a wheel: the files by their archive names, and its metadata."""
    info = f"{NAME}-{version}.dist-info"
    metadata = (
        "Metadata-Version: 2.1\n"
        f"Name: {NAME.replace('_', '-')}\nVersion: {version}\nSummary: {SUMMARY}\n"
        "Requires-Python: >=3.10\n"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: false\nTag: {tag()}\n"
    every = {**files, f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": wheel.encode()}
    every[f"{info}/RECORD"] = record(every, f"{info}/RECORD").encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in every.items():
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)


def record(files: Mapping[str, bytes], own: str) -> str:
    """RECORD's text: every file's sha256 and size in bytes; without them for RECORD itself."""
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{own},,", ""])
