"""The parsers of what dpkg and apt say about packages and where they come from."""

import base64
import hashlib
import os

import pytest
from samples import accepted, capture

from provision import facts
from provision.remote.collectors import apt, dpkg
from provision.remote.command import Failed, Missing, Output

BODY = b"\x04 no real key"
KEY = base64.b64encode(bytes([0xC6, len(BODY)]) + BODY).decode()
"""A keyring of one version 4 public key packet, RFC 4880's sections 4.2 and 12.2."""
FINGERPRINT = hashlib.sha1(b"\x99\0" + bytes([len(BODY)]) + BODY).hexdigest().upper()  # noqa: S324


def package(status, version="590.48.01-1", **marks):
    return facts.Package(version=version, status=status, **marks)


def test_dpkg_status():
    packages = dpkg.parse_status(capture("dpkg-status-half-configured.txt"), {"adduser", "nothing"})
    value = accepted("dpkg", {"interrupted": False, "packages": packages, "noted": []})
    assert value.packages == {
        "adduser": package("installed", "3.134"),
        "libnvidia-ml1": package("installed"),
        "libnvidia-ml1:i386": package("installed"),
        "nvidia-kernel-open-dkms": package("half-configured"),
        "nvidia-open": package("installed", hold=True),
        "xserver-xorg-video-nvidia": package("half-installed", "", reinstreq=True),
    }


def test_dpkg_status_that_is_cut_short():
    with pytest.raises(Failed, match="no status for nvidia-open"):
        dpkg.parse_status(capture("dpkg-status-cut-short.txt"), set())
    with pytest.raises(Failed, match="does not list dpkg"):
        dpkg.parse_status("", set())


@pytest.mark.parametrize(
    ("status", "seen"),
    [
        ("install ok installed", None),
        ("hold ok installed", package("installed", "1.0", hold=True)),
        ("deinstall ok config-files", None),
        ("purge ok not-installed", None),
        ("install ok unpacked", package("unpacked", "1.0")),
        ("install ok half-configured", package("half-configured", "1.0")),
        ("install ok triggers-awaited", package("triggers-awaited", "1.0")),
        ("install ok triggers-pending", package("triggers-pending", "1.0")),
        ("install reinstreq half-installed", package("half-installed", "1.0", reinstreq=True)),
        ("hold reinstreq installed", package("installed", "1.0", hold=True, reinstreq=True)),
    ],
)
def test_a_package_of_somebody_else_s_is_seen_where_its_state_does_not_last(status, seen):
    text = f"{DPKG}\n\nPackage: tree\nStatus: {status}\nArchitecture: amd64\nVersion: 1.0\n"
    found = dpkg.parse_status(text, ())
    value = accepted("dpkg", {"interrupted": False, "packages": found, "noted": []})
    assert value.packages == ({"tree": seen} if seen else {})


DPKG = "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.21.22"
HALF = (
    "Package: tree\nStatus: install reinstreq half-installed\nArchitecture: amd64\nVersion: 1.0\n"
)
"""As a dpkg wrote it to updates/0000 before it was killed."""
REMOVED = "Package: nvidia-open\nStatus: deinstall ok config-files\nArchitecture: amd64\n#padding\n"


@pytest.fixture
def admin(tmp_path, monkeypatch):
    """dpkg's folder, with its journal."""
    (tmp_path / "updates").mkdir()
    monkeypatch.setattr(dpkg, "ADMIN", tmp_path)
    monkeypatch.setattr(dpkg, "EXTENDED", tmp_path / "none")
    monkeypatch.setattr(dpkg, "HELD", tmp_path / "held")
    nvidia = "Package: nvidia-open\nStatus: install ok installed\nVersion: 590.48.01-1\n"
    (tmp_path / "status").write_text(f"{DPKG}\n\n{nvidia}\n")
    return tmp_path


def test_a_dpkg_that_was_not_interrupted(admin):
    (admin / "updates" / "tmp.i").write_text("#padding\n")
    value = accepted("dpkg", dpkg.collect({"packages": []}))
    assert value == facts.Dpkg(
        interrupted=False, packages={"nvidia-open": package("installed")}, noted=[]
    )


def test_an_interrupted_dpkg_s_journal_counts(admin):
    (admin / "updates" / "tmp.i").write_text(HALF.replace("tree", "other"))
    (admin / "updates" / "0000").write_text(HALF)
    (admin / "updates" / "0001").write_text(REMOVED)
    value = accepted("dpkg", dpkg.collect({"packages": []}))
    half = package("half-installed", "1.0", reinstreq=True)
    assert value == facts.Dpkg(interrupted=True, packages={"tree": half}, noted=[])


def test_whose_holds_were_to_be_restored(admin):
    """Whoever they belong to, as long as they are there; and nothing else that lies there."""
    others = [
        f"Package: {name}\nStatus: install ok installed\nArchitecture: {arch}\nVersion: 1.0\n"
        for name, arch in (("tree", "amd64"), ("wine", "i386"), ("vim", "amd64"))
    ]
    with (admin / "status").open("a") as status:
        status.write("\n".join(others))
    (admin / "held").mkdir()
    for name in ("tree", "wine:i386", "gone", "nvidia-open", ".tree.new"):
        (admin / "held" / name).touch()
    value = accepted("dpkg", dpkg.collect({"packages": []}))
    assert value.noted == ["nvidia-open", "tree", "wine:i386"]
    assert value.packages.keys() == {"nvidia-open", "tree", "wine:i386"}


def test_no_dpkg(tmp_path, monkeypatch):
    monkeypatch.setattr(dpkg, "ADMIN", tmp_path)
    with pytest.raises(Missing, match="no dpkg database"):
        dpkg.collect({"packages": []})


def test_what_came_as_a_dependency(tmp_path, monkeypatch):
    (tmp_path / "updates").mkdir()
    (tmp_path / "status").write_text(capture("dpkg-status-half-configured.txt"))
    (tmp_path / "extended_states").write_text(EXTENDED)
    monkeypatch.setattr(dpkg, "ADMIN", tmp_path)
    monkeypatch.setattr(dpkg, "EXTENDED", tmp_path / "extended_states")
    value = accepted("dpkg", dpkg.collect({"packages": ["adduser"]}))
    assert [name for name, one in value.packages.items() if one.auto] == ["libnvidia-ml1"]


EXTENDED = """\
Package: libnvidia-ml1
Architecture: amd64
Auto-Installed: 1

Package: nvidia-open
Architecture: amd64
Auto-Installed: 0

Package: elsewhere
Architecture: amd64
Auto-Installed: 1
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EXTENDED, {"libnvidia-ml1", "elsewhere"}),
        (EXTENDED.replace("\n\n", "\n \n\n"), {"libnvidia-ml1", "elsewhere"}),
        ("", set()),
        ("Auto-Installed: 1\n", set()),
    ],
)
def test_extended_states(text, expected):
    assert dpkg.parse_auto(text, "amd64") == expected


def test_a_dependency_of_a_foreign_architecture_is_not_the_native_package():
    text = "Package: libnvidia-ml1\nArchitecture: i386\nAuto-Installed: 1\n"
    assert "libnvidia-ml1" not in dpkg.parse_auto(text, "amd64")


def policy(name):
    value = {"error": None, "policy": apt.parse_policy(capture(name)), "sources": {}, "fresh": {}}
    return accepted("apt", value).policy


def test_policy_of_two_origins():
    assert policy("policy-two-origins.txt") == {
        "nvidia-open": facts.Policy(
            candidate="590.48.01-1",
            versions={
                "595.58.03-1": "http://127.0.0.1:8080/debian12/x86_64",
                "590.48.01-1": "http://127.0.0.1:8080/debian12/x86_64 file:/srv/cuda installed",
                "550.163.01-4": "http://deb.example/debian",
            },
        )
    }


def test_policy_without_candidate():
    value = policy("policy-no-candidate.txt")
    assert value["nvidia-driver-cuda"].candidate is None
    assert list(value["nvidia-driver-cuda"].versions) == ["590.48.01-1"]
    assert list(value["libnvidia-compute:i386"].versions) == ["590.48.01-1"]
    assert value["cuda-toolkit-99"] == facts.Policy(candidate=None, versions={})


def test_policy_of_packages_that_apt_does_not_know():
    assert apt.parse_policy("") == {}


def test_policy_of_nothing(monkeypatch):
    said = "Package files:\n 100 /var/lib/dpkg/status\n     release a=now\nPinned packages:\n"
    monkeypatch.setattr(apt, "run", lambda argv: Output(0, said, ""))
    assert apt._policy([]) == ({}, None)


def test_one_line_sources():
    flat, plain, disc = apt.parse_one_line(capture("sources-one-line.txt"), "a.list")
    assert flat == apt.Entry(
        file="a.list",
        uri="http://127.0.0.1:8080/debian12/x86_64/",
        suite="/",
        signed_by="/usr/share/keyrings/cuda.gpg",
    )
    assert (plain.uri, plain.suite, plain.signed_by) == (
        "http://deb.example/debian",
        "bookworm",
        None,
    )
    assert disc.suite == "bookworm"


def test_one_line_source_that_is_cut_short():
    with pytest.raises(Failed, match=r"a\.list, line 2"):
        list(apt.parse_one_line("\ndeb http://deb.example/debian\n", "a.list"))


def test_deb822_sources():
    found = list(apt.parse_deb822(capture("sources-deb822.txt"), "a.sources"))
    assert [(one.uri, one.suite) for one in found] == [
        ("http://deb.example/debian", "bookworm"),
        ("http://deb.example/debian", "bookworm-updates"),
        ("http://mirror.example/debian", "bookworm"),
        ("http://mirror.example/debian", "bookworm-updates"),
        ("http://127.0.0.1:8080/debian12/x86_64", "/"),
    ]
    assert found[0].signed_by == "/usr/share/keyrings/debian-archive-keyring.gpg"
    assert found[-1].signed_by.startswith("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n")


def test_a_source_s_password_is_no_fact():
    line = "deb https://user:secret@deb.example/debian bookworm main\n"
    stanza = "Types: deb\nURIs: https://user:secret@deb.example/debian\nSuites: bookworm\n"
    found = [*apt.parse_one_line(line, "a.list"), *apt.parse_deb822(stanza, "a.sources")]
    assert {one.uri for one in found} == {"https://…@deb.example/debian"}
    assert apt.index_name(found[0].uri, "bookworm") == "deb.example_debian_dists_bookworm_"


def test_deb822_source_without_suite():
    with pytest.raises(Failed, match=r"a\.sources: a source has no suites"):
        list(apt.parse_deb822("Types: deb\nURIs: http://deb.example\n", "a.sources"))


@pytest.mark.parametrize(
    ("uri", "suite", "name"),
    [
        ("http://127.0.0.1:8080/debian12/x86_64", "/", "127.0.0.1:8080_debian12_x86%5f64_"),
        ("http://u:p@127.0.0.1:8080/x86_64/", "/", "127.0.0.1:8080_x86%5f64_"),
        ("file:/srv/x86_64", "./", "_srv_x86%5f64_._"),
        ("https://deb.example/debian", "bookworm", "deb.example_debian_dists_bookworm_"),
        ("https://deb.example/s", "bookworm/updates", "deb.example_s_dists_bookworm_updates_"),
    ],
)
def test_index_name(uri, suite, name):
    assert apt.index_name(uri, suite) == name


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with two sources for one URI and an index of it, dated by its server."""
    (tmp_path / "key.gpg").write_bytes(base64.b64decode(KEY))
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "a.list").write_text(
        f"deb [signed-by={tmp_path}/key.gpg] http://deb.example/cuda/ /\n"
        f"deb [signed-by={tmp_path}/none.gpg,{'a' * 40}!] http://deb.example/other stable main\n"
    )
    (parts / "b.sources").write_text(
        "Types: deb\nURIs: http://deb.example/cuda\nSuites: /\nSigned-By:\n"
        f" -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n {KEY}\n"
        " -----END PGP PUBLIC KEY BLOCK-----\n"
    )
    (parts / "c.list.save").write_text("not read\n")
    (tmp_path / "deb.example_cuda_Release").touch()
    os.utime(tmp_path / "deb.example_cuda_Release", (0, 0))
    (tmp_path / "status").touch()
    monkeypatch.setattr(apt, "ADMIN", tmp_path)
    monkeypatch.setattr(apt, "run", lambda argv: Output(0, "", ""))
    monkeypatch.setattr(apt, "parse_status", lambda text, wanted: {})
    monkeypatch.setattr(apt, "ETC", tmp_path)
    monkeypatch.setattr(apt, "LISTS", tmp_path)
    return tmp_path


def test_sources_of_a_host(host):
    value = accepted("apt", apt.collect({"policy": []}))
    first, second = value.sources["http://deb.example/cuda"]
    assert first == facts.Source(
        file=f"{host}/sources.list.d/a.list",
        suite="/",
        signed_by=f"{host}/key.gpg",
        fingerprints=[FINGERPRINT],
        trusted=False,
    )
    assert (second.file, second.signed_by) == (f"{host}/sources.list.d/b.sources",) * 2
    assert second.fingerprints == [FINGERPRINT]
    assert value.sources["http://deb.example/other"][0].fingerprints == ["A" * 40]
    assert value.fresh == {"http://deb.example/cuda": True, "http://deb.example/other": False}


CONFLICT = """\
E: Conflicting values set for option Signed-By regarding source http://deb.example/cuda/ /: a != b
E: The list of sources could not be read.
"""


def test_sources_that_contradict_each_other_leave_a_reason_and_no_policy(host, monkeypatch):
    monkeypatch.setattr(apt, "run", lambda argv: Output(100, "", CONFLICT))
    value = accepted("apt", apt.collect({"policy": ["gcc"]}))
    assert value.error.startswith("Conflicting values set for option Signed-By")
    assert value.policy == {}
    assert len(value.sources["http://deb.example/cuda"]) == 2


def test_apt_is_asked_about_the_driver_s_packages_whoever_installed_them(host, monkeypatch):
    asked = []
    monkeypatch.setattr(apt, "run", lambda argv: asked.append(argv) or Output(0, "", ""))
    names = {"nvidia-driver-550": {}, "linux-image-6.1": {}, "gcc": {}}
    monkeypatch.setattr(apt, "parse_status", lambda text, wanted: names)
    apt.collect({"policy": ["gcc"]})
    assert asked == [["apt-cache", "policy", "gcc", "nvidia-driver-550"]]


def test_index_grows_old(host):
    fetched = (host / "deb.example_cuda_Release").stat().st_ctime
    entries = [apt.Entry("a.list", "http://deb.example/cuda", "/", None)]
    assert apt.fresh(entries, host, fetched + 10) == {"http://deb.example/cuda": True}
    assert apt.fresh(entries, host, fetched + 3601) == {"http://deb.example/cuda": False}


def test_a_flat_source_without_a_release_file_is_as_fresh_as_its_link(host):
    (host / "Packages").write_text("")
    link = host / "_srv_pool_._Packages"
    link.symlink_to(host / "Packages")
    fetched = link.lstat().st_ctime
    entries = [apt.Entry("a.list", "file:/srv/pool", "./", None)]
    assert apt.fresh(entries, host, fetched + 10) == {"file:/srv/pool": True}
    assert apt.fresh(entries, host, fetched + 3601) == {"file:/srv/pool": False}


def test_keyring_that_is_damaged(host):
    (host / "key.gpg").write_bytes(b"<html>")
    with pytest.raises(Failed, match=r"key\.gpg: no OpenPGP packet"):
        apt.collect({"policy": []})
