"""The parsers of what files, compilers and toolkits on a host are."""

import os

import pytest
from samples import accepted, capture

from provision import facts
from provision.remote.collectors import compilers, files, kept, toolkits, uv
from provision.remote.command import Failed, Missing, Output


def test_files(tmp_path):
    path = tmp_path / "a"
    path.write_text("abc")
    path.chmod(0o640)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "dangling").symlink_to("nothing")
    paths = [str(tmp_path / name) for name in ("a", "link", "dangling", "a/below")]
    value = accepted("files", files.collect({"files": paths}))
    abc = facts.File(
        sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", mode=0o640
    )
    assert list(value.values()) == [abc, abc, None, None]


def test_folder_is_no_file(tmp_path):
    tmp_path.chmod(0o750)
    value = accepted("files", {"/f": files.describe(tmp_path)})
    assert value == {"/f": facts.File(sha256=facts.DIRECTORY, mode=0o750)}
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Failed, match="is not a regular file"):
        files.describe(tmp_path / "pipe")


def test_toolkits(tmp_path, monkeypatch):
    for name in ("cuda-13.1/bin", "cuda-13.0/bin", "cuda-12.8/bin", "cuda-12.6/doc", "cuda-13"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "cuda").symlink_to("cuda-13.1")

    def run(argv):
        if "cuda-12.8" in argv[0]:
            raise Missing("no nvcc")
        if "cuda-13.0" in argv[0]:
            raise PermissionError("not executable")
        return Output(0, capture("nvcc-version.txt"), "")

    monkeypatch.setattr(toolkits, "run", run)
    monkeypatch.setattr(toolkits, "LOCAL", tmp_path)
    value = accepted("toolkits", toolkits.collect({}))
    assert value.installed == {"12.8": None, "13.0": None, "13.1": "13.0.88"}
    assert value.default == str(tmp_path / "cuda-13.1")


def test_toolkit_that_does_not_answer():
    assert toolkits.parse_nvcc(Output(1, "", "nvcc: cannot execute")) is None


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("gcc-12", "12.2.0\n", "12.2.0"),
        ("make", "GNU Make 4.3\nBuilt for x86_64-pc-linux-gnu\n", "4.3"),
        ("ninja", "1.11.1\n", "1.11.1"),
        ("cmake", "cmake version 3.25.1\n\nCMake suite maintained by …\n", "3.25.1"),
    ],
)
def test_compiler_versions(name, text, version):
    assert compilers.parse_version(name, text) == version


def test_compiler_without_version():
    with pytest.raises(Failed, match="gcc states no version"):
        compilers.parse_version("gcc", "internal error\n")


def program(path, text, mode=0o755):
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_uv(tmp_path):
    good = program(tmp_path / "uv", "#!/bin/sh\necho 'uv 0.13.9 (0123abc 2026-11-01)'\n")
    value = accepted("uv", uv.collect({"uv": [good, str(tmp_path / "none")]}))
    assert list(value.values()) == ["0.13.9", None]


def test_uv_that_does_not_run(tmp_path):
    with pytest.raises(Failed, match="does not run"):
        uv.collect({"uv": [program(tmp_path / "a", "#!/none/sh\n")]})
    with pytest.raises(PermissionError):
        uv.collect({"uv": [program(tmp_path / "b", "#!/bin/sh\n", 0o644)]})
    with pytest.raises(Failed, match="not uv: 'pip 26'"):
        uv.parse_version("pip 26\n")


def test_kept_packages_by_name_and_version(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "KEPT", tmp_path)
    for version, names in {
        "590.48.01-1": ["libcuda1_590.48.01-1_amd64.deb", "nvidia-open_590.48.01-1_all.deb"],
        "580.159.04-1": ["nvidia-open_580.159.04-1_all.deb", "notes.txt"],
        ".595.58.03-1.part": ["nvidia-open_595.58.03-1_all.deb"],
    }.items():
        (tmp_path / version).mkdir()
        for name in names:
            (tmp_path / version / name).touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "a_1_all.deb").touch()
    assert accepted("kept", kept.collect({})) == {
        "libcuda1": {"590.48.01-1": f"{tmp_path}/590.48.01-1/libcuda1_590.48.01-1_amd64.deb"},
        "nvidia-open": {
            "580.159.04-1": f"{tmp_path}/580.159.04-1/nvidia-open_580.159.04-1_all.deb",
            "590.48.01-1": f"{tmp_path}/590.48.01-1/nvidia-open_590.48.01-1_all.deb",
        },
    }


def test_where_nothing_was_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "KEPT", tmp_path / "none")
    assert kept.collect({}) == {}


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("gcc_4%3a12.2.0-3_amd64.deb", ("gcc", "4:12.2.0-3")),
        ("libc6_2.36-9+deb12u10~x_amd64.deb", ("libc6", "2.36-9+deb12u10~x")),
        ("nvidia-open.deb", None),
        ("nvidia-open_590_amd64.deb.half", None),
        ("a_b_1_amd64.deb", None),
    ],
)
def test_package_and_version_in_a_file_s_name(file, package):
    assert kept.parse_name(file) == package
