"""The wheelhouse as a package index: what uv itself takes from it, and what it refuses."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from uv import find_uv_bin

from provision.wheelhouse import Manifest
from wheels import index

VERSION = "1.0+cu131"
PROJECT = """\
[project]
name = "user"
version = "0"
requires-python = ">=3.11"
dependencies = ["tiny-kernels"]
"""
README = Path(__file__).parents[2] / "README.md"


def as_in_the_readme(url):
    """The README's own words on how a project takes a wheel, with this wheel and this place."""
    (block,) = re.findall(
        r"^ +\[tool\.uv\.sources\]\n.*?explicit = true\n", README.read_text(), re.M | re.S
    )
    place = re.search(r"file:[^\"]+", block)[0]
    return textwrap.dedent(block).replace("flash-attn", "tiny-kernels").replace(place, url)


def put(folder, name="tiny_kernels", version=VERSION):
    """A pure wheel and its manifest into a wheelhouse."""
    file = f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items())
    with zipfile.ZipFile(folder / file, "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            wheel.writestr(path, text)
    content = (folder / file).read_bytes()
    manifest = Manifest(
        file=file,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        requires=(),
        archs=(),
        glibc="",
    )
    (folder / f"{file}.json").write_text(manifest.model_dump_json())
    return manifest


def _digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@pytest.fixture
def house(tmp_path):
    """A wheelhouse with one wheel and its index."""
    folder = tmp_path / "dist"
    folder.mkdir()
    manifest = put(folder)
    index.write(folder)
    return SimpleNamespace(folder=folder, wheel=manifest, url=(folder / "simple").as_uri())


def uv(tmp_path, *argv):
    """uv with a cache of its own and no network."""
    env = {name: text for name, text in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    return subprocess.run(
        [find_uv_bin(), *argv, "--offline"],
        cwd=tmp_path,
        env={**env, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )


def install(tmp_path, house, digest):
    """What uv says of installing the wheel by this hash, and what came of it."""
    (tmp_path / "lock.txt").write_text(f"tiny-kernels=={VERSION} --hash=sha256:{digest}\n")
    argv = ["pip", "install", "--index", house.url, "--require-hashes", "-r", "lock.txt"]
    said = uv(tmp_path, *argv, "--target", str(tmp_path / "there"), "--no-config")
    return said, tmp_path / "there" / "tiny_kernels.py"


def test_uv_installs_a_wheel_from_it_by_its_hash(tmp_path, house):
    said, module = install(tmp_path, house, house.wheel.sha256)
    assert said.returncode == 0, said.stderr
    assert module.read_text() == f"VERSION = {VERSION!r}\n"


def test_uv_refuses_a_wheel_that_is_not_what_the_index_says(tmp_path, house):
    with zipfile.ZipFile(house.folder / house.wheel.file, "a") as wheel:
        wheel.writestr("more.py", "")
    said, module = install(tmp_path, house, house.wheel.sha256)
    assert said.returncode != 0
    assert "hash mismatch" in said.stderr.lower()
    assert not module.exists()


def test_a_project_takes_it_from_an_explicit_index_and_locks_its_hash(tmp_path, house):
    (tmp_path / "pyproject.toml").write_text(f"{PROJECT}\n{as_in_the_readme(house.url)}")
    said = uv(tmp_path, "lock")
    assert said.returncode == 0, said.stderr
    lock = (tmp_path / "uv.lock").read_text()
    assert f'version = "{VERSION}"' in lock
    assert f"sha256:{house.wheel.sha256}" in lock


def test_names_are_listed_normalised_and_files_by_hash(house):
    pages = index.pages([house.wheel])
    assert pages.keys() == {"index.html", "tiny-kernels/index.html"}
    assert '<a href="tiny-kernels/">' in pages["index.html"]
    link = f"../../tiny_kernels-1.0%2Bcu131-py3-none-any.whl#sha256={house.wheel.sha256}"
    assert f'<a href="{link}">{house.wheel.file}</a>' in pages["tiny-kernels/index.html"]


def test_what_comes_and_goes_does_so_in_the_index(house):
    other = put(house.folder, "other", "2")
    newer = put(house.folder, version="1.1")
    index.write(house.folder)
    page = house.folder / "simple/tiny-kernels/index.html"
    assert page.read_text().count("<a ") == 2
    assert (house.folder / "simple/other/index.html").is_file()
    for gone in (other, newer):
        (house.folder / f"{gone.file}.json").unlink()
    index.write(house.folder)
    assert page.read_text().count("<a ") == 1
    assert not (house.folder / "simple/other").exists()
    assert "other" not in (house.folder / "simple/index.html").read_text()
