"""CUDA extensions against the torch, the libraries, the host and the GPUs that are there."""

import os
import shutil

import pytest
from elf_files import PTX, TORCH_VERSION, container, cubins, distribution, entry, shared_object
from samples import capture

from provision.remote.command import Missing, Output
from provision.remote.elf import abi, extensions, loader, torch
from provision.remote.elf.sections import Fault

SET_DEVICE = "_ZN3c104cuda9SetDeviceEa"
ERROR = "_ZN3c105ErrorC2ENS_14SourceLocationE"
SYM_INT = "_ZNK3c106SymInt22maybe_as_int_slow_pathEv"
NEEDED = ["libc10.so", "libtorch_cuda.so", "libcudart.so.12", "libcuda.so.1", "libc.so.6"]
TORCH = {
    "torch/version.py": TORCH_VERSION.encode(),
    "torch/lib/libc10.so": shared_object(defined=[ERROR]),
    "torch/lib/libtorch_cuda.so": shared_object(
        needed=["libcudart.so.12"], defined=[SET_DEVICE], fatbin=cubins(80, 90, 120)
    ),
    "nvidia/cuda_runtime/lib/libcudart.so.12": shared_object(),
}
needs_filt = pytest.mark.skipif(shutil.which("c++filt") is None, reason="needs c++filt (binutils)")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A torch in an environment, on a host that has little more than the C library."""
    monkeypatch.setattr(loader, "output", lambda argv: capture("ldconfig-with-i386.txt"))
    distribution(tmp_path, "torch", "2.9.1", TORCH)
    return tmp_path


def extension(**differing):
    usual = {"needed": NEEDED, "undefined": [SET_DEVICE, ERROR], "fatbin": cubins(80, 90, 120)}
    return shared_object(**(usual | differing))


def flash_attn(site, **differing):
    name = "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"
    distribution(site, "flash_attn", "2.8.3+cu128torch2.9.1", {name: extension(**differing)})
    return f"flash_attn: {name}"


def faults(site, gpus=("9.0", "12.0")):
    return abi.faults(site, gpus=list(gpus))


def only(site):
    (fault,) = faults(site)
    return fault


def test_an_extension_that_fits(site):
    flash_attn(site)
    assert faults(site) == []


# --- torch -------------------------------------------------------------------------------------


@needs_filt
def test_built_for_another_torch(site):
    name = flash_attn(site, undefined=[ERROR, SYM_INT, "_ZN2at5emptyEv", "THPVariableClass"])
    assert only(site) == (
        f"{name} was built for another torch than 2.9.1+cu128 "
        "(3 symbols are missing, such as at::empty())"
    )


@needs_filt
def test_built_for_another_torch_by_one_symbol(site):
    name = flash_attn(site, undefined=[SYM_INT])
    assert only(site) == (
        f"{name} was built for another torch than 2.9.1+cu128 "
        "(1 symbol is missing: c10::SymInt::maybe_as_int_slow_path() const)"
    )


def test_no_symbol_is_named_where_nothing_can_spell_it(site, monkeypatch):
    def missing(argv):
        raise Missing("no c++filt")

    monkeypatch.setattr(torch, "run", missing)
    name = flash_attn(site, undefined=[SYM_INT, ERROR + "x"])
    assert faults(site) == [
        f"{name} was built for another torch than 2.9.1+cu128 (2 symbols are missing)"
    ]


def test_a_name_that_c_filt_does_not_understand_is_not_shown(monkeypatch):
    monkeypatch.setattr(torch, "run", lambda argv: Output(0, argv[1] + "\n", ""))
    assert torch.spelt("_ZN3c10_") == ""
    assert torch.spelt("THPVariableClass") == "THPVariableClass"


@pytest.mark.parametrize(
    ("symbol", "its"),
    [
        (SET_DEVICE, True),
        (SYM_INT, True),
        ("_ZN2at4_ops8as_tuple4callERKNS_6TensorE", True),
        ("_ZN5torch8autograd13ReadyQueue4pushE", True),
        ("_ZNK6caffe28TypeMeta4nameEv", True),
        ("_ZTVN3c1015TensorImplE", True),
        ("_ZTIN5torch3jit6MethodE", True),
        ("_ZGVN2at6globalE", True),
        ("THPVariableClass", True),
        ("aoti_torch_get_dtype", True),
        ("torch_get_num_threads", True),
        ("_ZN7cutlass4gemmEv", False),
        ("_ZN3c11xE", False),
        ("_ZNSt6vectorIN2at6TensorEE4sizeEv", False),
        ("PyObject_Call", False),
        ("cudaMalloc", False),
        ("mytorch_x", False),
    ],
)
def test_names_that_are_torch_s(symbol, its):
    assert bool(torch.SYMBOL.match(symbol)) is its


def test_what_a_library_beside_it_defines_is_not_missing(site):
    files = {
        "audio/_audio.so": extension(needed=["libaudio.so", *NEEDED], undefined=[SYM_INT]),
        "audio/lib/libaudio.so": extension(defined=[SYM_INT]),
    }
    distribution(site, "audio", "1", files)
    assert faults(site) == []


def test_weak_symbols_may_be_missing(site):
    flash_attn(site, weak=[SYM_INT])
    assert faults(site) == []


def test_an_extension_with_a_variant_for_each_torch(site):
    files = {
        f"addon/libaddon_torch{version}-cuda.so": extension(undefined=undefined)
        for version, undefined in (("24", [SYM_INT]), ("29", [ERROR]))
    }
    distribution(site, "addon", "1", files)
    assert faults(site) == []
    (site / "addon/libaddon_torch29-cuda.so").write_bytes(extension(undefined=[SYM_INT]))
    assert [fault.partition(" was ")[0] for fault in faults(site)] == [
        "addon: libaddon_torch24-cuda.so",
        "addon: libaddon_torch29-cuda.so",
    ]


def test_extensions_that_differ_in_a_digit_are_no_variants(site):
    files = {
        "vllm/_vllm_fa2_C.abi3.so": extension(),
        "vllm/_vllm_fa3_C.abi3.so": extension(undefined=[SYM_INT]),
    }
    distribution(site, "vllm", "0.15.1", files)
    assert only(site).startswith("vllm: _vllm_fa3_C.abi3.so was built for another torch than ")


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        ("libcudart.so.13", "was built for CUDA 13, torch 2.9.1+cu128 is for CUDA 12"),
        (
            "libcudart-1b2c3d4e.so.11.8.89",
            "was built for CUDA 11, torch 2.9.1+cu128 is for CUDA 12",
        ),
        ("libcudart.e8e8b82a.so.12", None),
    ],
)
def test_the_cuda_of_an_extension_against_torch_s(site, needed, expected):
    name = flash_attn(site, needed=["libc10.so", needed])
    distribution(site, "runtime", "1", {f"runtime/{needed}": shared_object()})
    assert faults(site) == ([f"{name} {expected}"] if expected else [])


def test_an_extension_of_cuda_alone_brings_its_own(site):
    files = {
        "a/a.so": shared_object(needed=["libcudart.so.13"], undefined=["torch_of_its_own"]),
        "a/libcudart.so.13": shared_object(),
    }
    distribution(site, "a", "1", files)
    assert faults(site) == []


def test_a_torch_without_cuda(site):
    version = TORCH_VERSION.replace("+cu128", "+cpu").replace("'12.8'", "None")
    (site / "torch/version.py").write_text(version)
    name = flash_attn(site)
    assert faults(site) == [f"{name} was built for CUDA 12, torch 2.9.1+cpu has no CUDA"]


def test_a_torch_that_is_damaged(site):
    flash_attn(site)
    library = site / "torch/lib/libc10.so"
    library.write_bytes(library.read_bytes()[:-1])
    assert only(site).startswith("torch: libc10.so is cut short: it has ")


def test_a_torch_that_states_no_version():
    with pytest.raises(Fault, match=r"^version\.py states no version$"):
        torch.parse_version("cuda = '12.8'\n")


def test_no_torch_at_all(site):
    shutil.rmtree(site / "torch")
    shutil.rmtree(site / "torch-2.9.1.dist-info")
    name = flash_attn(site)
    assert only(site) == (
        f"{name} can't be loaded: neither the environment nor the host has "
        "libc10.so, libtorch_cuda.so, libcudart.so.12"
    )


def test_torch_s_own_libraries_are_held_to_nothing(site):
    (site / "torch/lib/libc10.so").write_bytes(extension(needed=["libtorch.so", "libodd.so"]))
    assert faults(site) == []


def test_an_environment_without_cuda_is_not_looked_at_further(tmp_path, monkeypatch):
    monkeypatch.setattr(loader, "output", None)
    distribution(tmp_path, "numpy", "2.2.6", {"numpy/core.so": shared_object(needed=["libodd.so"])})
    assert faults(tmp_path) == []


# --- the host ----------------------------------------------------------------------------------


def test_glibc_of_the_extension_against_the_host_s(site, monkeypatch):
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.9")
    name = flash_attn(site, versions={"libc.so.6": ["GLIBC_2.38", "GLIBC_2.4"]})
    assert faults(site) == [f"{name} needs glibc 2.38, this host has 2.9"]
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.38")
    assert faults(site) == []


def test_an_extension_for_another_machine(site):
    other = {"x86_64": 183, "aarch64": 62}[os.uname().machine]
    name = flash_attn(site, machine=other)
    (there,) = {"x86_64", "aarch64"} - {os.uname().machine}
    assert only(site) == f"{name} is for {there}, this host is {os.uname().machine}"


def test_an_extension_that_is_cut_short(site):
    name = flash_attn(site)
    path = site / name.partition(" ")[2]
    path.write_bytes(path.read_bytes()[:1000])
    assert only(site).startswith(f"{name} is cut short: it has 1000 bytes, its headers tell of ")


def test_what_is_no_elf_file_is_no_extension(site):
    files = {"a/libm.so": b"GROUP ( libm.so.6 )\n", "a/old.so": b"\x7fELF\1\1\1" + bytes(99)}
    distribution(site, "a", "1", files)
    assert faults(site) == []


# --- libraries ---------------------------------------------------------------------------------


def test_libraries_that_nobody_has(site):
    name = flash_attn(site, needed=[*NEEDED, "libnccl.so.2", "libnvshmem_host.so.3"])
    assert only(site) == (
        f"{name} can't be loaded: neither the environment nor the host has "
        "libnccl.so.2, libnvshmem_host.so.3"
    )


@pytest.mark.parametrize(
    ("search", "place"),
    [("$ORIGIN/../own", "own"), ("/nowhere:${ORIGIN}/sub", "lib/sub"), ("{site}/x", "x")],
)
def test_libraries_where_the_extension_itself_looks(site, search, place):
    found = extension(
        needed=["libc10.so", "libown.so"], runpath=search.replace("{site}", str(site))
    )
    distribution(site, "a", "1", {"lib/a.so": found})
    (site / place).mkdir()
    assert len(faults(site)) == 1
    (site / place / "libown.so").touch()
    assert faults(site) == []


def test_libraries_of_the_driver_and_of_python_are_not_the_environment_s(site):
    flash_attn(site, needed=[*NEEDED, "libnvidia-ml.so.1", "libpython3.11.so.1.0"])
    assert faults(site) == []


def test_an_extension_for_something_optional(site):
    files = {
        "codec/core4.so": extension(needed=["libc10.so", "libavutil.so.56"]),
        "codec/core5.so": extension(needed=["libc10.so", "libavutil.so.57"]),
    }
    distribution(site, "codec", "1", files)
    assert only(site) == (
        "codec: core4.so (and 1 more) can't be loaded: neither the environment nor the host has "
        "libavutil.so.56"
    )
    (site / "codec/core5.so").write_bytes(extension())
    assert faults(site) == []


def test_libraries_in_the_loader_s_cache():
    cached = loader.parse_ldconfig(capture("ldconfig-with-i386.txt"))
    assert cached == ["libnvidia-ml.so.1", "libnvidia-ml.so", "libc.so.6"]


def test_a_host_that_can_t_tell_its_libraries(site, monkeypatch):
    def missing(argv):
        raise Missing("no ldconfig")

    monkeypatch.setattr(loader, "output", missing)
    flash_attn(site)
    assert faults(site) == ["the CUDA extensions can't be checked: no ldconfig"]


# --- kernels -----------------------------------------------------------------------------------


def test_gpus_without_kernels(site):
    flash_attn(site, fatbin=cubins(80, 90))
    assert faults(site, ["12.0", "12.0"]) == [
        "flash_attn: has kernels for 80, 90, but the GPUs are 12.0"
    ]
    assert faults(site, ["9.0"]) == []
    assert abi.faults(site, gpus=None) == []


def test_the_extensions_of_a_distribution_serve_together(site):
    files = {
        f"a/{name}.so": extension(fatbin=fatbin)
        for name, fatbin in {
            "general": cubins(80, 120),
            "hopper": container(entry(PTX, 90, flags=0x100011)),
            "host": b"",
        }.items()
    }
    distribution(site, "a", "1", files)
    assert faults(site, ["12.0"]) == []


def test_torch_s_own_kernels(site):
    assert faults(site, ["10.0"]) == ["torch: has kernels for 80, 90, 120, but the GPUs are 10.0"]


# --- who brought what --------------------------------------------------------------------------


def test_a_file_belongs_to_the_distribution_that_records_it(tmp_path):
    names = ["a/b.so", "a/c.so.1.2", "a/d.so.py", "../e.so", "a/f.sox"]
    distribution(tmp_path / "site", "a_b", "1.0", dict.fromkeys(names, b"x"))
    distribution(tmp_path / "site", "c", "2", {"c,d.so": b"x"})
    record = tmp_path / "site/c-2.dist-info/RECORD"
    record.write_text('"c,d.so",sha256=abc,1\ngone.so,,\n')
    found = extensions.shared_objects(tmp_path / "site")
    assert [
        (one.distribution, one.path.relative_to(tmp_path / "site").as_posix()) for one in found
    ] == [
        ("a_b", "a/b.so"),
        ("a_b", "a/c.so.1.2"),
        ("a_b", "../e.so"),
        ("c", "c,d.so"),
    ]
