"""What is fetched for hosts that can't: how pip is asked, and what is taken from the cache."""

import hashlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from provision import feed
from provision.errors import ProvisionError
from provision.stack import Lock


def content(name):
    return f"wheel {name}".encode()


def sha256(name):
    return hashlib.sha256(content(name)).hexdigest()


LOCK = Lock(
    text=(
        "# a lock\n"
        f"numpy==2.2.6 \\\n    --hash=sha256:{sha256('numpy')} \\\n    --hash=sha256:{'0' * 64}\n"
        f'six==1.17.0 ; python_version >= "3.12" \\\n    --hash=sha256:{sha256("six")}\n'
    )
)
BOTH = ["numpy", "six"]


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Stands in for pip: notes what it is asked, and puts the wheels that it is told to have."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    here = SimpleNamespace(asked=[], requirements=[], has=["numpy"], code=0, err="")

    def run(argv, **_options):
        here.asked.append(argv)
        options = dict(word.removeprefix("--").split("=", 1) for word in argv if "=" in word)
        folder = tmp_path / options["dest"]
        if "requirement" in options:
            here.requirements.append((tmp_path / options["requirement"]).read_text())
        for name in here.has:
            (folder / f"{name}-1-py3-none-any.whl").write_bytes(content(name))
        return subprocess.CompletedProcess(argv, here.code, stdout="", stderr=here.err)

    monkeypatch.setattr(feed.subprocess, "run", run)
    return here


# --- a lock's wheels ---------------------------------------------------------------------------


def test_pip_is_asked_for_the_host_s_python_and_platform_not_for_ours(pip):
    feed.locked_wheels(LOCK, "3.12.3")
    (argv,) = pip.asked
    assert argv[:6] == [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    assert {
        *("--only-binary=:all:", "--require-hashes", "--python-version=3.12"),
        *("--implementation=cp", "--abi=cp312", "--abi=abi3", "--abi=none"),
        *("--platform=manylinux_2_31_x86_64", "--platform=manylinux2014_x86_64"),
        *("--platform=manylinux_2_5_x86_64", "--platform=linux_x86_64"),
    } <= set(argv)
    assert "--platform=manylinux_2_32_x86_64" not in argv


@pytest.mark.parametrize(("python", "names"), [("3.11.2", ["numpy"]), ("3.12.3", BOTH)])
def test_pip_gets_the_pins_of_the_host_s_python_whatever_it_runs_on_itself(pip, python, names):
    """pip reads markers with its own Python, whatever version it is asked for."""
    feed.locked_wheels(LOCK, python)
    (text,) = pip.requirements
    assert [pin.name for pin in Lock(text=text).pins] == names
    assert ";" not in text
    assert [pin.hashes for pin in Lock(text=text).pins] == [
        pin.hashes for pin in LOCK.pins if pin.name in names
    ]


def test_files_with_their_hashes_in_order(pip):
    pip.has = BOTH
    found = feed.locked_wheels(LOCK, "3.12.3")
    assert [(path.name, digest) for path, digest in found.items()] == [
        ("numpy-1-py3-none-any.whl", sha256("numpy")),
        ("six-1-py3-none-any.whl", sha256("six")),
    ]
    assert all(path.is_file() for path in found)


def test_what_was_fetched_is_not_fetched_again_for_the_same_python(pip):
    first = feed.locked_wheels(LOCK, "3.11.2")
    assert feed.locked_wheels(LOCK, "3.11.9") == first
    assert len(pip.asked) == 1
    feed.locked_wheels(LOCK, "3.12.3")
    assert len(pip.asked) == 2


def test_what_was_not_fetched_whole_is_fetched_again(pip):
    pip.code, pip.err = 1, "WARNING: retrying\nERROR: No matching distribution found for six\n\n"
    with pytest.raises(ProvisionError) as caught:
        feed.locked_wheels(LOCK, "3.12.3")
    assert caught.value.what == (
        "the lock's wheels can't be fetched: ERROR: No matching distribution found for six"
    )
    pip.code, pip.has = 0, BOTH
    assert len(feed.locked_wheels(LOCK, "3.12.3")) == 2


def test_a_file_that_was_damaged_in_the_cache_is_fetched_again(pip):
    (path,) = feed.locked_wheels(LOCK, "3.11.2")
    path.write_bytes(b"rubbish")
    assert feed.locked_wheels(LOCK, "3.11.2") == {path: sha256("numpy")}
    assert len(pip.asked) == 2


# --- uv ----------------------------------------------------------------------------------------


def test_the_uv_wheel_with_the_hash_is_fetched_once_and_kept(pip):
    pip.has = ["uv", "other"]
    for _ in range(2):
        assert feed.uv_wheel("0.13.9", sha256("uv")) == content("uv")
    assert len(pip.asked) == len(feed.UV_PLATFORMS)
    assert all("uv==0.13.9" in argv for argv in pip.asked)


def test_a_uv_wheel_of_another_hash_is_none(pip):
    pip.has, pip.err, pip.code = ["other"], "ERROR: no index\n", 1
    with pytest.raises(ProvisionError) as caught:
        feed.uv_wheel("0.13.9", sha256("uv"))
    assert f"no uv 0.13.9 wheel with sha256 {sha256('uv')}" in caught.value.what
    assert caught.value.hint == "ERROR: no index / ERROR: no index"
