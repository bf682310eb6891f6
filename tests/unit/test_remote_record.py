"""The hashes of an environment's files."""

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
