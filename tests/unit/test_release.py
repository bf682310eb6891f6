"""A release is finished when it is sealed; afterwards every change of it can be told."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from provision.remote import release
from provision.remote.command import Failed

ABOUT = {"lock": "00ff", "wheels": {"extension": "11"}, "python": "3.11.2"}
PACKAGE = "lib/python3.11/site-packages/a"


@pytest.fixture
def sealed(tmp_path):
    """A release with a module, an executable and a link."""
    (tmp_path / PACKAGE).mkdir(parents=True)
    (tmp_path / PACKAGE / "one.py").write_text("1\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to("/usr/bin/python3")
    release.seal(tmp_path, ABOUT)
    return tmp_path


def manifest(folder):
    return json.loads((folder / release.MANIFEST).read_text())


def intact(folder):
    return release.intact(release.listing(folder)[0], manifest(folder)["files"])


def test_the_manifest_says_what_it_was_made_of_and_what_its_files_are(sealed):
    lines = (sealed / release.FILES).read_bytes()
    assert manifest(sealed) == {**ABOUT, "files": hashlib.sha256(lines).hexdigest()}
    paths = [line.partition(b"\t")[0].decode() for line in lines.splitlines()]
    assert paths == ["/bin/pip", "/bin/pip3", "/bin/python", f"/{PACKAGE}/one.py"]
    assert intact(sealed)
    assert release.changes(sealed) == []


def test_how_large_it_is(sealed):
    """Links count nothing, and neither do the lists of what is in it."""
    guards = sum((sealed / "bin" / name).stat().st_size for name in release.GUARDS)
    assert release.listing(sealed)[1] == guards + len("1\n")


def test_the_manifest_comes_last(sealed, monkeypatch):
    """What is cut off before that is no release."""
    written = []
    monkeypatch.setattr(release, "replace", lambda path, *_: written.append(path.name))
    release.seal(sealed, ABOUT)
    assert written[-1] == release.MANIFEST


@pytest.mark.parametrize("name", ["pip", "pip3"])
def test_where_pip_would_be_stands_what_refuses(sealed, name):
    said = subprocess.run(
        [sealed / "bin" / name, "install", "numpy"], capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout) == (1, "")
    assert "nothing is installed beside its lock" in said.stderr
    assert "Change the stack and its lock" in said.stderr


def test_a_pip_that_came_with_a_wheel_is_replaced(sealed):
    (sealed / "bin/pip").write_text("#!/bin/sh\nexit 0\n")
    release.seal(sealed, ABOUT)
    assert "sealed by firstlight" in (sealed / "bin/pip").read_text()
    assert intact(sealed)


def cached(folder):
    cache = folder / PACKAGE / "__pycache__"
    cache.mkdir()
    (cache / "one.cpython-311.pyc").touch()


def touched(folder):
    os.utime(folder / PACKAGE / "one.py", (1, 1))


def linked(folder):
    (folder / "bin/python").unlink()
    (folder / "bin/python").symlink_to("/opt/conda/bin/python3")


ONE = f"{PACKAGE}/one.py"
SPOILT = {
    "nothing": (lambda folder: None, []),
    "Python's cache": (cached, []),
    "an empty folder": (lambda folder: (folder / PACKAGE / "empty").mkdir(), []),
    "the manifest anew": (
        lambda folder: (folder / release.MANIFEST).write_bytes(
            (folder / release.MANIFEST).read_bytes()
        ),
        [],
    ),
    "another content": (
        lambda folder: (folder / ONE).write_text("22\n"),
        [{"path": ONE, "what": "changed"}],
    ),
    "another time": (touched, [{"path": ONE, "what": "changed"}]),
    "a file that is gone": (
        lambda folder: (folder / ONE).unlink(),
        [{"path": ONE, "what": "removed"}],
    ),
    "a new file": (
        lambda folder: (folder / PACKAGE / "two.py").touch(),
        [{"path": f"{PACKAGE}/two.py", "what": "added"}],
    ),
    "another link": (linked, [{"path": "bin/python", "what": "changed"}]),
    "several": (
        lambda folder: (folder / ONE).rename(folder / PACKAGE / "0.py"),
        [{"path": f"{PACKAGE}/0.py", "what": "added"}, {"path": ONE, "what": "removed"}],
    ),
}


@pytest.mark.parametrize("case", SPOILT, ids=SPOILT)
def test_what_was_changed_since(sealed, case):
    spoil, changes = SPOILT[case]
    spoil(sealed)
    assert release.changes(sealed) == changes
    assert intact(sealed) is (changes == [])


@pytest.mark.parametrize(
    "name", [b"caf\xe9.py", "é \N{LINE SEPARATOR}.py".encode(), b"a b.py", b"a\r.py"]
)
def test_files_of_any_name(sealed, name):
    path = os.path.join(os.fsencode(sealed), b"bin", name)  # noqa: PTH118 - bytes are no Path
    with open(path, "wb"):  # noqa: PTH123
        pass
    release.seal(sealed, ABOUT)
    assert intact(sealed)
    assert release.changes(sealed) == []
    os.utime(path, (1, 1))
    assert not intact(sealed)
    (change,) = json.loads(json.dumps(release.changes(sealed)))
    assert change == {"path": f"bin/{os.fsdecode(name)}", "what": "changed"}


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([], {}),
        (
            ["Flash_Attn-2.8.3.dist-info", "torch-2.9.1+cu130.dist-info", "torch", "a.py"],
            {"flash-attn": "2.8.3", "torch": "2.9.1+cu130"},
        ),
        (["zope.interface-7.0.dist-info"], {"zope-interface": "7.0"}),
        (["old-1.egg-info", "numpy-2.2.6.dist-info.bak"], {}),
    ],
)
def test_distributions_by_the_names_of_their_folders(entries, found):
    assert release.parse_distributions(entries) == found


@pytest.mark.parametrize(
    "entries",
    [["a_b-1.dist-info", "A.b-2.dist-info"], ["~umpy.dist-info"], ["-1.dist-info"]],
    ids=["there twice", "what pip leaves when it is killed", "without a name"],
)
def test_distributions_that_are_damaged(entries):
    with pytest.raises(Failed, match="is damaged or a second version of the same distribution"):
        release.parse_distributions(entries)


def test_who_uses_a_release(tmp_path):
    folder = tmp_path / "r-1"
    (tmp_path / "r-10").mkdir()
    wait = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", wait, f"{folder}/bin/serve.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        (user,) = release.users(str(folder))
        assert user.endswith(f"(pid {process.pid})")
        assert release.users(str(tmp_path / "r-10")) == []
        process.stdin.close()
    assert release.users(str(folder)) == []


def test_who_has_a_file_of_a_release_mapped(tmp_path):
    library = tmp_path / "r-1/lib/x.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(bytes(4096))
    hold = (
        "import mmap, os, sys; f = open(os.environ['LIBRARY'], 'rb');"
        "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold],
        env={"LIBRARY": str(library)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        assert len(release.users(str(tmp_path / "r-1"))) == 1
        process.stdin.close()
