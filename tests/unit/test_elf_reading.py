"""What is read from ELF files: sections, the dynamic part, fatbinaries."""

import contextlib
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elf_files import CUBIN, PTX, container, cubins, entry, image, shared_object
from pydantic_core import _pydantic_core
from samples import CAPTURES

from provision.remote.elf import dynamic, fatbin, sections
from provision.remote.elf.archs import Arch
from provision.remote.elf.fatbin import Fatbin
from provision.remote.elf.sections import Fault, NotElf, Section

WHOLE = shared_object(needed=["libc.so.6"], defined=["go"], fatbin=cubins(80))


def file(tmp_path, content):
    path = tmp_path / "a.so"
    path.write_bytes(content)
    return path


# --- sections ----------------------------------------------------------------------------------


def test_sections_and_machine():
    stream = io.BytesIO(image({".one": (1, b"abc"), ".two": (1, b"defg")}, 183))
    found = sections.read(stream)
    assert found.machine == "aarch64"
    assert found.sections[1:3] == (Section(".one", 64, 3), Section(".two", 67, 4))
    assert found.part(stream, ".two") == b"defg"
    assert found.part(stream, ".three") == b""


def test_a_section_without_content_makes_no_file_too_short():
    assert ".bss" not in {section.name for section in sections.read(io.BytesIO(WHOLE)).sections}


@pytest.mark.parametrize("content", [b"", b"\x7f", b"<html>", b"GROUP ( libm.so.6 )\n" * 10])
def test_no_elf_file(content):
    with pytest.raises(NotElf, match=r"^is no ELF file$"):
        sections.read(io.BytesIO(content))


@pytest.mark.parametrize("size", [63, 64, 200, len(WHOLE) - 1])
def test_every_cut_is_found(size):
    with pytest.raises(Fault, match=rf"^is cut short: it has {size} bytes, its header"):
        sections.read(io.BytesIO(WHOLE[:size]))


def test_a_section_that_lies_beyond_the_end():
    content = bytearray(image({".data": (1, b"x")}))
    size = len(content) - 2 * 64 + 32
    content[size : size + 8] = (1000).to_bytes(8, "little")
    with pytest.raises(Fault, match=r"^is cut short: it has \d+ bytes, its headers tell of 1064$"):
        sections.read(io.BytesIO(content))


def test_section_headers_of_a_strange_size():
    content = bytearray(WHOLE)
    content[58:60] = b"\x28\0"
    with pytest.raises(
        Fault, match=r"^is damaged: its section headers have 40 bytes, expected 64$"
    ):
        sections.read(io.BytesIO(content))


def test_a_file_of_another_width_is_known_by_that_alone():
    found = sections.read(io.BytesIO(b"\x7fELF\1\1\1" + bytes(60)))
    assert found == sections.Image("a 32-bit or big-endian machine", ())


def test_a_machine_that_no_host_is():
    assert sections.read(io.BytesIO(image({}, 243))).machine == "ELF machine 243"


# --- the dynamic part --------------------------------------------------------------------------


def test_what_a_shared_object_asks_for_and_offers(tmp_path):
    content = shared_object(
        needed=["libc10.so", "libc.so.6"],
        runpath="$ORIGIN/../torch/lib::/opt/lib",
        rpath="/build",
        undefined=["_ZN3c105ErrorC2Ev", "memcpy"],
        weak=["__gmon_start__"],
        defined=["go", "PyInit_a"],
        versions={"libc.so.6": ["GLIBC_2.14", "GLIBC_2.9"], "libstdc++.so.6": ["GLIBCXX_3.4.29"]},
    )
    found = dynamic.read(file(tmp_path, content))
    assert found.needed == ("libc10.so", "libc.so.6")
    assert found.search == ("$ORIGIN/../torch/lib", "/opt/lib")
    assert found.undefined == {"_ZN3c105ErrorC2Ev", "memcpy"}
    assert found.defined == {"go", "PyInit_a"}
    assert found.versions == {"GLIBC_2.14", "GLIBC_2.9", "GLIBCXX_3.4.29"}
    assert found.glibc == (2, 14)


def test_rpath_counts_where_there_is_no_runpath(tmp_path):
    found = dynamic.read(file(tmp_path, shared_object(rpath="/build")))
    assert (found.search, found.needed, found.glibc) == (("/build",), (), ())


def test_glibc_s_private_version_is_no_number(tmp_path):
    content = shared_object(versions={"libc.so.6": ["GLIBC_PRIVATE", "GLIBC_2.2.5"]})
    assert dynamic.read(file(tmp_path, content)).glibc == (2, 2, 5)


def test_versions_that_point_anywhere_end(tmp_path):
    table = b"".join(
        number.to_bytes(8, "little") + (16).to_bytes(4, "little") + (1).to_bytes(4, "little")
        for number in range(2000)
    )
    found = dynamic.read(file(tmp_path, image({".gnu.version_r": (1, table)})))
    assert found.versions == {""}


def test_a_symbol_whose_name_lies_nowhere(tmp_path):
    symbols = b"\xff" * 4 + b"\x10\0\7\0" + bytes(16) + b"a rest"
    found = dynamic.read(file(tmp_path, image({".dynsym": (11, symbols)})))
    assert (found.defined, found.undefined) == ({""}, set())


@pytest.mark.parametrize("byte", [0x00, 0x7F, 0xFF])
def test_a_damaged_byte_anywhere_gives_a_fault_at_most(tmp_path, byte):
    versions = {"libc.so.6": ["GLIBC_2.14"], "libm.so.6": ["GLIBC_2.2"]}
    whole = shared_object(needed=["libc.so.6"], versions=versions, fatbin=cubins(80))
    for place in range(len(whole)):
        path = file(tmp_path, whole[:place] + bytes([byte]) + whole[place + 1 :])
        with contextlib.suppress(Fault):
            dynamic.read(path)
            fatbin.read(path)


REAL = Path(_pydantic_core.__file__)
linux = pytest.mark.skipif(sys.platform != "linux", reason="ELF files are Linux's")


@linux
def test_a_real_extension():
    found = dynamic.read(REAL)
    assert "libc.so.6" in found.needed
    assert "PyInit__pydantic_core" in found.defined
    assert "PyErr_SetObject" in found.undefined
    assert (2, 2) < found.glibc < (3,)


@linux
@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf to compare with")
def test_the_same_as_readelf():
    argv = ["readelf", "--wide", "--dynamic", "--dyn-syms", REAL]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    symbol = r"(GLOBAL|WEAK) +\S+ +.*?(\S+) ([^\s@]+)(?:@\S+)?(?: \(\d+\))?$"
    symbols = re.findall(symbol, said, re.MULTILINE)
    found = dynamic.read(REAL)
    assert list(found.needed) == re.findall(r"\(NEEDED\).*\[(.*)\]", said)
    assert found.undefined == {n for bind, at, n in symbols if at == "UND" and bind == "GLOBAL"}
    assert found.defined - {""} == {name for _, at, name in symbols if at != "UND"}


# --- fatbinaries -------------------------------------------------------------------------------


def archs(*words):
    return frozenset(Arch(int(word.rstrip("af")), word.lstrip("0123456789")) for word in words)


def parsed(content):
    return list(fatbin.parse(content, 0, len(content)))


def test_what_nvcc_writes():
    assert parsed((CAPTURES / "elf/nv_fatbin-nvcc-13.1.bin").read_bytes()) == [
        Fatbin(cubins=archs("90", "90a", "100f", "120"), ptx=archs("90a", "100f", "120"))
    ]


def test_what_nvcc_writes_to_be_linked_on_the_device():
    # LTO code, kind 8, is not for the driver.
    assert parsed((CAPTURES / "elf/nv_relfatbin-nvcc-13.1.bin").read_bytes()) == [
        Fatbin(cubins=archs("90"), ptx=frozenset())
    ]


@pytest.mark.parametrize("section", [".nv_fatbin", "__nv_relfatbin"])
def test_all_fatbinaries_of_a_file_each_kind_once(tmp_path, section):
    ptx = container(entry(PTX, 90), entry(CUBIN, 90, flags=0x100011, header=104, payload=b""))
    content = cubins(80, 90) + bytes(8) + cubins(80, 90) + ptx
    path = file(tmp_path, image({".other": (1, cubins(50)), section: (1, content)}))
    assert fatbin.read(path) == {
        Fatbin(archs("80", "90"), frozenset()),
        Fatbin(archs("90a"), archs("90")),
    }


def test_a_file_without_kernels(tmp_path):
    assert fatbin.read(file(tmp_path, image({".text": (1, cubins(80))}))) == frozenset()


def test_no_elf_file_has_no_fatbinaries(tmp_path):
    with pytest.raises(NotElf):
        fatbin.read(file(tmp_path, b""))


GOOD = Fatbin(archs("80"), frozenset())
SIZELESS = container()[:8] + (1 << 63).to_bytes(8, "little")
HEADLESS = container()[:6] + bytes(10)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\x50\xed\x55\xba" * 1000, []),
        (b"garbage" * 1000 + cubins(80), [GOOD]),
        (cubins(80) + b"garbage", [GOOD]),
        (cubins(80) + cubins(90)[:-1], [GOOD]),
        (container() + cubins(80), [GOOD]),
        (SIZELESS + cubins(80), [GOOD]),
        (HEADLESS + cubins(80), [GOOD]),
        (container(entry(CUBIN, 80), b"\2\0" + bytes(200)) + cubins(80), [GOOD, GOOD]),
        (container(entry(CUBIN, 80), entry(CUBIN, 90)[:-1]), [GOOD]),
    ],
    ids=[
        *("nothing", "magic alone", "garbage before", "garbage after", "cut short", "empty"),
        *("size beyond the end", "no header", "an entry of no size", "an entry beyond the end"),
    ],
)
def test_garbage_is_passed_over(content, expected):
    assert parsed(content) == expected
