"""What a finished release must show before it is switched to."""

import stat
import sys

import pytest
from elf_files import TORCH_VERSION, cubins, distribution, shared_object

from provision.remote import proof
from provision.remote.elf import loader

LOCK = {"a-b": "1", "numba": "0.61.2"}
NUMBA_SAYS = "Numba needs NumPy 2.2 or less. Got NumPy 2.3."


@pytest.fixture
def release(tmp_path):
    """A release whose Python is the tests', with its site-packages alone on the path."""
    site = tmp_path / "lib/python3.11/site-packages"
    distribution(site, "a_b", "1", {"a_b.py": b""})
    distribution(site, "numba", "0.61.2", {"numba.py": b""})
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    run = f"import sys; sys.path.insert(0, {str(site)!r}); exec(sys.argv[2])"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -I ] || exit 9\nexec {sys.executable} -I -c "{run}" "$2" "$3"\n'
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def module(release, name, text):
    (release / f"lib/python3.11/site-packages/{name}.py").write_text(text)


def proven(release, lock=LOCK, gpus=None):
    return proof.prove(release, lock_versions=lock, gpus=gpus)


def test_a_release_that_is_as_it_must_be(release):
    assert proven(release) == []


@pytest.mark.parametrize(
    ("lock", "expected"),
    [
        (LOCK | {"a-b": "2"}, ["a-b is 1, the lock has 2"]),
        (
            LOCK | {"c": "3", "b": "4"},
            ["b is missing, the lock has 4", "c is missing, the lock has 3"],
        ),
        ({"numba": "0.61.2"}, ["a-b 1 is there, the lock has none"]),
    ],
)
def test_versions_against_the_lock_both_ways(release, lock, expected):
    assert proven(release, lock) == expected


def test_a_distribution_that_is_there_twice(release):
    (release / "lib/python3.11/site-packages/a.b-2.dist-info").mkdir()
    (fault,) = proven(release)
    assert fault.endswith("is damaged or a second version of the same distribution")


def test_files_that_are_not_as_recorded(release):
    record = release / "lib/python3.11/site-packages/a_b-1.dist-info/RECORD"
    record.write_text(
        "a_b.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nc.py,sha256=x,0\n"
    )
    assert proven(release) == ["c.py: missing"]


def test_extensions_are_held_to_the_torch_that_is_there(release, monkeypatch):
    monkeypatch.setattr(loader, "output", lambda argv: "")
    site = release / "lib/python3.11/site-packages"
    files = {
        "torch/__init__.py": b"",
        "torch/version.py": TORCH_VERSION.encode(),
        "torch/lib/libc10.so": shared_object(),
    }
    distribution(site, "torch", "2.9.1", files)
    flash_attn = shared_object(needed=["libc10.so"], fatbin=cubins(80))
    distribution(site, "flash_attn", "2.8.3", {"flash_attn_2_cuda.so": flash_attn})
    lock = LOCK | {"torch": "2.9.1", "flash-attn": "2.8.3"}
    assert proven(release, lock, ["12.0"]) == [
        "flash_attn: has kernels for 80, but the GPUs are 12.0"
    ]


def test_numba_about_numpy_in_its_own_words(release):
    module(release, "numba", f"raise ImportError({NUMBA_SAYS!r})")
    assert proven(release) == [f"'import numba' fails: ImportError: {NUMBA_SAYS}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import os; os._exit(3)", "'import numba' fails: Python exits 3"),
        ("import os; os.kill(os.getpid(), 11)", "'import numba' fails: killed by signal 11"),
    ],
    ids=["it exits", "it crashes"],
)
def test_an_import_that_ends_without_a_word(release, text, expected):
    module(release, "numba", text)
    assert proven(release) == [expected]


def test_an_import_that_does_not_end(release, monkeypatch):
    monkeypatch.setitem(proof.IMPORTS, "numba", ("import numba", 0.5))
    module(release, "numba", "import time; time.sleep(60)")
    assert proven(release) == ["'import numba' does not end within 0.5 s"]


def test_only_what_is_installed_is_imported(release):
    module(release, "torch", "raise ImportError")
    module(release, "vllm", "raise ImportError")
    assert proven(release) == []


@pytest.mark.parametrize(
    ("name", "statement"), [("torch", "import torch"), ("vllm", "from vllm import LLM")]
)
def test_torch_and_vllm_are_imported_too(release, name, statement):
    distribution(
        release / "lib/python3.11/site-packages", name, "1", {f"{name}.py": b"import lost"}
    )
    assert proven(release, LOCK | {name: "1"}) == [
        f"'{statement}' fails: ModuleNotFoundError: No module named 'lost'"
    ]


def test_a_release_without_its_python(release):
    (release / "bin/python").unlink()
    assert proven(release) == [f"{release} has no bin/python that runs"]


@pytest.mark.parametrize("pythons", [[], ["python3.11", "python3.12"]])
def test_a_release_with_another_number_of_site_packages_than_one(tmp_path, pythons):
    for python in pythons:
        (tmp_path / "lib" / python / "site-packages").mkdir(parents=True)
    assert proven(tmp_path) == [
        f"{tmp_path} has {len(pythons)} site-packages folders, expected one"
    ]
