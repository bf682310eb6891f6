"""The hashes of an environment's files, and the stamp that says whether one was touched."""

import os

import pytest
from rounds import digest, site_packages

from provision.remote import record


def test_files_as_recorded(tmp_path):
    files = {"a/__init__.py": b"1\n", "a/b.so": b"\x7fELF", "a/empty.py": b""}
    assert record.faults(site_packages(tmp_path, files)) == []


def test_a_file_whose_name_is_quoted_in_its_record(tmp_path):
    (tmp_path / "a,b.py").write_bytes(b"x")
    info = tmp_path / "a-1.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(f'"a,b.py",{digest(b"x")},1\n')
    assert record.faults(tmp_path) == []


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda file: file.write_bytes(b"2\n"), ["a.py: not as recorded (sha256)"]),
        (lambda file: file.unlink(), ["a.py: missing"]),
    ],
    ids=["changed", "missing"],
)
def test_a_file_that_is_not_as_recorded(tmp_path, spoil, expected):
    folder = site_packages(tmp_path, {"a.py": b"1\n", "b.py": b"1\n"})
    spoil(folder / "a.py")
    assert record.faults(folder) == expected


def test_an_entry_without_a_hash_is_not_looked_at(tmp_path):
    folder = site_packages(tmp_path, {"a.pyc": b"1"}, hashed=False)
    (folder / "a.pyc").write_bytes(b"2")
    assert record.faults(folder) == []


@pytest.mark.parametrize(
    ("spoil", "same"),
    [
        (lambda release: None, True),
        (lambda release: (release / "firstlight.json").write_text("{}"), True),
        (lambda release: (release / "__pycache__").mkdir(), True),
        (
            lambda release: (release / "__pycache__").mkdir() or touch(release, "__pycache__/a"),
            True,
        ),
        (lambda release: (release / "a.py").write_text("22"), False),
        (lambda release: os.utime(release / "a.py", (1, 1)), False),
        (lambda release: (release / "a.py").unlink(), False),
        (lambda release: touch(release, "b.py"), False),
        (lambda release: (release / "link").symlink_to("elsewhere"), False),
    ],
    ids=[
        *("nothing", "the manifest", "an empty cache", "Python's cache", "another content"),
        *("another time", "a file that is gone", "a new file", "a link"),
    ],
)
def test_a_stamp_follows_every_file_but_the_manifest_and_caches(tmp_path, spoil, same):
    (tmp_path / "a.py").write_text("1")
    before = record.stamp(tmp_path)
    spoil(tmp_path)
    assert (record.stamp(tmp_path) == before) is same


def touch(release, name):
    (release / name).touch()
