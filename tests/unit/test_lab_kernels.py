"""The backend of lab-kernels: its pure parts, and a build with simulated compilers."""

import base64
import csv
import hashlib
import importlib.util
import io
import math
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from wheels import profile

SOURCE = Path(__file__).parents[2] / "wheels" / "recipes" / "lab-kernels"
KNOWN = ["sm_75", "sm_90", "sm_100", "sm_120"]


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


backend = module("lab_kernels_backend", SOURCE / "backend.py")


def test_archs_are_cubins_alone():
    assert backend.archs("9.0; 12.0", KNOWN) == [
        "-gencode", "arch=compute_90,code=sm_90", "-gencode", "arch=compute_120,code=sm_120",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["8.6", "sm_90", "90", "9.0;9.0+PTX", "1.20", "9.0a", "٩.0"])
def test_an_arch_that_nvcc_does_not_know(text):
    with pytest.raises(backend.Refused, match=r"LAB_KERNELS_ARCHS has .* 7.5, 9.0, 10.0, 12.0"):
        backend.archs(text, KNOWN)


def test_no_arch_at_all():
    with pytest.raises(backend.Refused, match=r"expected something like \"9.0;12.0\""):
        backend.archs(" ;", KNOWN)


@pytest.mark.parametrize("label", ["", "cu131", "CU131_torch-2.9.1", "cu131torch2.9"])
def test_the_version_is_normalised(label):
    given = f"{backend.VERSION}+{label}" if label else backend.VERSION
    assert backend.labelled(label) == str(Version(given))


@pytest.mark.parametrize("label", ["a b", ".a", "a..b", "a/b", "ä", "a\n"])
def test_a_label_that_no_version_has(label):
    with pytest.raises(backend.Refused, match="LAB_KERNELS_LOCAL_VERSION is"):
        backend.labelled(label)


def test_only_a_number_limits_the_jobs():
    assert backend.jobs("12") == ["-j", "12"]
    assert backend.jobs("auto") == backend.jobs("") == []
    with pytest.raises(backend.Refused, match=r"MAX_JOBS is '0'"):
        backend.jobs("0")


def test_ninja_is_told_what_torch_tells_it():
    text = backend.ninja_file(
        compiler="c++",
        nvcc="gate --unit /cuda/bin/nvcc",
        include=Path("/cuda/include"),
        cuda_flags=["-gencode", "arch=compute_90,code=sm_90", "--threads", "2"],
        steps=[(Path("/my src/a.cu"), Path("/b/a.o")), (Path("/my src/b.cpp"), Path("/b/b.o"))],
    )
    assert text == (
        """\
ninja_required_version = 1.3
cxx = c++
nvcc = gate --unit /cuda/bin/nvcc

cflags = -fPIC -I/cuda/include
post_cflags = -O3 -std=c++17
cuda_cflags = -I/cuda/include --compiler-options '-fPIC'
cuda_post_cflags = -O3 -std=c++17 -gencode arch=compute_90,code=sm_90 --threads 2

rule compile
  command = $cxx -MMD -MF $out.d $cflags -c $in -o $out $post_cflags
  depfile = $out.d
  deps = gcc

rule cuda_compile
  depfile = $out.d
  deps = gcc
  command = $nvcc --generate-dependencies-with-compile --dependency-output $out.d \
$cuda_cflags -c $in -o $out $cuda_post_cflags

build /b/a.o: cuda_compile /my$ src/a.cu
build /b/b.o: compile /my$ src/b.cpp
"""
    )


def packed(path):
    backend.pack(
        path, "1.0+cu131", {"lab_kernels/__init__.py": b"", "lab_kernels/a.so": b"\x7fELF"}
    )
    return zipfile.ZipFile(path)


def test_record_states_every_file(tmp_path):
    archive = packed(tmp_path / "a.whl")
    own = "lab_kernels-1.0+cu131.dist-info/RECORD"
    rows = {name: rest for name, *rest in csv.reader(io.StringIO(archive.read(own).decode()))}
    assert list(rows) == archive.namelist()
    assert rows.pop(own) == ["", ""]
    for name, (digest, size) in rows.items():
        content = archive.read(name)
        padded = digest.removeprefix("sha256=") + "="
        assert base64.urlsafe_b64decode(padded) == hashlib.sha256(content).digest()
        assert int(size) == len(content)


def test_the_same_input_is_the_same_wheel(tmp_path):
    packed(tmp_path / "a.whl")
    packed(tmp_path / "b.whl")
    assert (tmp_path / "a.whl").read_bytes() == (tmp_path / "b.whl").read_bytes()


TOOLS = {
    "cuda/bin/nvcc": 'test "$1" = --list-gpu-code && echo sm_90 sm_120',
    "bin/c++": 'while [ "$1" != -o ]; do shift; done; echo linked > "$2"',
    "bin/gate": "",
    "bin/ninja": 'echo "$PWD $*" >> "$TOLD"; exit "$NINJA_ENDS"',
}
"""Simulated: they do just enough for the backend to get to its end."""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of the package's source, and simulated tools for it."""
    for name, body in TOOLS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    (tmp_path / "cuda/lib64").mkdir()
    (tmp_path / "cuda/lib64/libcudart.so").touch()
    for variable in ("CXX", "PYTORCH_NVCC", "NVCC_THREADS", "LAB_KERNELS_ARCHS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("MAX_JOBS", "3")
    monkeypatch.setenv("LAB_KERNELS_LOCAL_VERSION", "lab")
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setenv("NINJA_ENDS", "0")
    return Path(shutil.copytree(SOURCE, tmp_path / "tree", ignore=shutil.ignore_patterns("build")))


def build(tree):
    return module("built_backend", tree / "backend.py").build_wheel(str(tree.parent))


def test_a_wheel_is_made(tree, monkeypatch):
    monkeypatch.setenv("PYTORCH_NVCC", "gate -x nvcc")
    file = build(tree)
    name, version, _, tags = parse_wheel_filename(file)
    archive = zipfile.ZipFile(tree.parent / file)
    info = f"lab_kernels-{version}.dist-info"
    metadata = Metadata.from_email(archive.read(f"{info}/METADATA"))
    assert (
        (metadata.name, metadata.version) == (name, version) == ("lab-kernels", Version("1.0+lab"))
    )
    assert f"Tag: {next(iter(tags))}\n" in archive.read(f"{info}/WHEEL").decode()
    assert archive.read("lab_kernels/_kernels.so") == b"linked\n"
    assert (tree.parent / "told").read_text() == f"{tree}/build -v -j 3\n"
    text = (tree / "build/build.ninja").read_text()
    assert "\nnvcc = gate -x nvcc\n" in text
    assert len(re.findall("^build .*: cuda_compile ", text, re.MULTILINE)) == len(units())


def test_what_ninja_could_not_compile_ends_the_build(tree, monkeypatch):
    monkeypatch.setenv("NINJA_ENDS", "1")
    with pytest.raises(SystemExit, match=r"ninja ended with exit code 1; .* next build"):
        build(tree)
    assert not list(tree.parent.glob("*.whl"))


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("CUDA_HOME", "/nowhere", "there is no /nowhere/bin/nvcc: set CUDA_HOME"),
        ("PYTORCH_NVCC", "no-such-gate nvcc", "nvcc is not there: 'no-such-gate nvcc'"),
        ("CXX", "no-such-compiler", "the C\\+\\+ compiler is not there"),
        ("LAB_KERNELS_ARCHS", "8.0", "this nvcc compiles for 9.0, 12.0"),
        ("NVCC_THREADS", "two", "NVCC_THREADS is 'two': expected a positive whole number"),
    ],
)
def test_what_a_build_refuses(tree, monkeypatch, variable, value, said):
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit, match=f"^lab-kernels: .*{said}"):
        build(tree)
    assert not (tree.parent / "told").exists()


def test_without_ninja(tree):
    (tree.parent / "bin/ninja").unlink()
    with pytest.raises(SystemExit, match="ninja is not there"):
        build(tree)


def test_without_the_link_to_cudart_nothing_is_compiled(tree):
    (tree.parent / "cuda/lib64/libcudart.so").unlink()
    with pytest.raises(SystemExit, match=r"libcudart.so is missing: link it"):
        build(tree)
    assert not (tree.parent / "told").exists()


def units():
    return {path.stem for path in (SOURCE / "csrc").glob("*.cu")}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The Python side, beside a library that can't be loaded: no CUDA here."""
    shutil.copytree(SOURCE / "lab_kernels", tmp_path / "lab_kernels")
    (tmp_path / "lab_kernels/_kernels.so").write_bytes(b"no ELF file")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "lab_kernels"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path / "lab_kernels"


def test_the_profile_is_of_these_units():
    measured = profile.load("lab-kernels").measured
    assert {row.unit.removesuffix(".cu") for row in measured} == units()


FUNCTIONS = {"Binomial": "binomial", "Exponential": "exp", "Inverse": "inverse"}


def test_every_unit_is_in_the_three_lists(package):
    import lab_kernels

    for unit in units():
        (row,) = re.findall(r"SERIES_UNIT\((.*)\)", (SOURCE / f"csrc/{unit}.cu").read_text())
        name, function, power, order, _ = row.split(", ")
        assert name == f"{FUNCTIONS[function]}_{power}_{order}" == unit
    listed = re.findall(r"EACH\((\w+), (\d+)\)", (SOURCE / "csrc/api.cpp").read_text())
    assert [name for name, _ in listed] == list(lab_kernels.UNITS) == sorted(units())
    assert all(name.endswith(f"_{order}") for name, order in listed)


def test_importing_needs_no_cuda_and_evaluating_does(package):
    import lab_kernels

    with pytest.raises(ValueError, match="matrices of 4 rows"):
        lab_kernels.evaluate("binomial_8_4", [[[1.0]]])
    with pytest.raises(OSError, match=r"_kernels\.so"):
        lab_kernels.evaluate("binomial_8_4", [[[0.0] * 4] * 4])


def test_a_package_without_its_library(package):
    (package / "_kernels.so").unlink()
    with pytest.raises(ImportError, match="install lab-kernels from its wheel"):
        import lab_kernels  # noqa: F401


@pytest.mark.parametrize(
    ("unit", "closed"),
    [
        ("binomial_8_4", lambda x: (1 + x) ** 0.125),
        ("exp_48_8", lambda x: math.exp(0.75 * x)),
        ("inverse_16_8", lambda x: (1 - x) ** -0.25),
    ],
)
def test_the_series_that_kernels_are_held_to(package, unit, closed):
    """A symmetric matrix's function is that of its eigenvalues, here a + b and a - b."""
    from lab_kernels.__main__ import series

    a, b = 0.1, -0.4
    high, low = closed(a + b), closed(a - b)
    wanted = [[(high + low) / 2, (high - low) / 2], [(high - low) / 2, (high + low) / 2]]
    for row, found in zip(wanted, series(unit, [[a, b], [b, a]]), strict=True):
        assert found == pytest.approx(row, abs=1e-12)


@pytest.mark.parametrize(("wrong", "code"), [(0.0, 0), (1e-4, 1), (math.nan, 1)])
def test_one_wrong_entry_is_found(package, monkeypatch, wrong, code):
    """With a simulated GPU that computes the series, but for one entry."""
    from lab_kernels import __main__ as check

    def evaluate(unit, matrices):
        results = [check.series(unit, matrix) for matrix in matrices]
        results[-1][-1][-1] += wrong if unit == check.UNITS[-1] else 0.0
        return results

    monkeypatch.setattr(check, "COUNT", 2)
    monkeypatch.setattr(check, "evaluate", evaluate)
    assert check.main() == code
