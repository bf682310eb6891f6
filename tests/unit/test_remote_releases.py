"""Actions on releases, and on what they are made of: each is done whole, or done again."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from elf_files import TORCH_VERSION, distribution, shared_object
from rounds import site_packages

from provision.remote import actions, proof, release
from provision.remote.actions import ActionFailed
from provision.remote.elf import loader

WHEEL = b"a wheel"
SHA = hashlib.sha256(WHEEL).hexdigest()
OTHER = b"another wheel"
OTHER_SHA = hashlib.sha256(OTHER).hexdigest()
ABOUT = {"lock": "1" * 64, "python": "3.11.2", "wheels": {"extension": "2" * 64}}


@pytest.fixture
def uploaded(host):
    """What was uploaded to the host."""
    host.BLOBS.mkdir()
    for content in (WHEEL, OTHER):
        (host.BLOBS / hashlib.sha256(content).hexdigest()).write_bytes(content)
    return host.BLOBS


# --- place and feed ----------------------------------------------------------------------------


def test_an_uploaded_file_gets_its_own_name(host, do, uploaded):
    path = host.root / "wheels/a-1-py3-none-any.whl"
    assert do(do="place", sha256=SHA, path=str(path)) == f"put {path}\n"
    assert path.read_bytes() == WHEEL
    assert path.stat().st_mode & 0o777 == 0o644


def feed(host, do, **files):
    names = {f"{name}-1-py3-none-any.whl": sha256 for name, sha256 in files.items()}
    action = {"lock": "00ff", "python": "3.11.2", "folder": str(host.root / "feed")}
    return do(do="feed", feeds={"00ff": names}, **action)


def fed(host):
    return {path.name: path.read_bytes() for path in (host.root / "feed").iterdir()}


def test_a_lock_s_wheels_stand_in_a_folder_under_their_own_names(host, do, uploaded):
    for _ in range(2):  # what is there already stays
        assert feed(host, do, a=SHA, b=OTHER_SHA) == (host.root.joinpath("log.txt").read_text())
        assert fed(host) == {"a-1-py3-none-any.whl": WHEEL, "b-1-py3-none-any.whl": OTHER}


def test_fed_wheels_stay_uploaded_for_the_next_release_and_lie_there_once(host, do, uploaded):
    feed(host, do, a=SHA)
    assert (uploaded / SHA).is_file()
    assert (host.root / "feed/a-1-py3-none-any.whl").is_symlink()


def test_a_feed_that_was_cut_short_is_completed(host, do, uploaded):
    (uploaded / OTHER_SHA).unlink()
    with pytest.raises(ActionFailed, match=f"the upload {OTHER_SHA} is missing or damaged"):
        feed(host, do, a=SHA, b=OTHER_SHA)
    (uploaded / OTHER_SHA).write_bytes(OTHER)
    feed(host, do, a=SHA, b=OTHER_SHA)
    assert len(fed(host)) == 2


def test_a_damaged_upload_is_taken_away_so_that_it_is_uploaded_anew(host, do, uploaded):
    (uploaded / SHA).write_bytes(b"rubbish")
    for action in ({"do": "place", "path": str(host.root / "x")}, {"do": "unpack", "member": "x"}):
        with pytest.raises(ActionFailed, match="missing or damaged"):
            do(**{"sha256": SHA, "wheel": SHA, "path": str(host.root / "x"), **action})
        assert not (uploaded / SHA).exists()


# --- seal --------------------------------------------------------------------------------------


@pytest.fixture
def made(host, monkeypatch):
    """A release that was made and is not sealed yet."""
    monkeypatch.setattr(proof, "gpus", lambda: ["12.0"])
    site_packages(host.root / "r/lib/python3.11/site-packages", {"a.py": b"1\n"})
    return host.root / "r"


def seal(made, do, **versions):
    return do(do="seal", release=str(made), versions=versions or {"a": "1"}, **ABOUT)


def test_a_release_that_is_as_locked_gets_its_manifest(made, do):
    assert seal(made, do) == f"prove {made}\n"
    manifest = json.loads((made / release.MANIFEST).read_text())
    assert {name: manifest[name] for name in ABOUT} == ABOUT
    assert manifest["gpus"] == ["12.0"]
    assert release.intact(release.listing(made)[0], manifest["files"])


def test_a_release_that_is_sealed_while_no_gpu_answers_says_so(made, do, monkeypatch):
    monkeypatch.setattr(proof, "gpus", lambda: None)
    seal(made, do)
    assert json.loads((made / release.MANIFEST).read_text())["gpus"] == []


def test_a_release_that_is_not_as_locked_gets_none_and_all_faults_are_in_the_log(made, do, host):
    versions = {"a": "2", **dict.fromkeys("bcde", "1")}
    with pytest.raises(ActionFailed) as caught:
        seal(made, do, **versions)
    assert str(caught.value) == (
        "it is not as locked: a is 1, the lock has 2; b is missing, the lock has 1; "
        "c is missing, the lock has 1; and 2 more"
    )
    assert len(host.root.joinpath("log.txt").read_text().splitlines()) == 1 + 5
    assert not (made / release.MANIFEST).exists()


def joined(made, torch, monkeypatch):
    """What a release with this torch and an extension for torch 2.9.1 must hold."""
    monkeypatch.setattr(loader, "output", lambda argv: "")
    monkeypatch.setattr(proof, "IMPORTS", {})
    site = made / "lib/python3.11/site-packages"
    check = "_ZN3c106detail14torchCheckFailEv"
    files = {
        "torch/version.py": TORCH_VERSION.replace("2.9.1", torch).encode(),
        "torch/lib/libc10.so": shared_object(defined=[check] if torch == "2.9.1" else []),
    }
    distribution(site, "torch", torch, files)
    linked = shared_object(needed=["libc10.so"], undefined=[check])
    distribution(site, "extension", "1.0+torch2.9.1", {"extension_cuda.so": linked})
    return {"a": "1", "torch": torch, "extension": "1.0+torch2.9.1"}


def test_an_extension_beside_the_torch_that_it_was_built_for(made, do, monkeypatch):
    seal(made, do, **joined(made, "2.9.1", monkeypatch))
    assert (made / release.MANIFEST).exists()


def test_an_extension_for_another_torch_is_not_switched_to(made, do, monkeypatch):
    """torch 2.10 lacks a symbol that the extension is linked against."""
    versions = joined(made, "2.10.0", monkeypatch)
    words = r"extension: extension_cuda\.so was built for another torch than 2\.10\.0\+cu128"
    with pytest.raises(ActionFailed, match=f"it is not as locked: {words}"):
        seal(made, do, **versions)
    assert not (made / release.MANIFEST).exists()


# --- going back --------------------------------------------------------------------------------


@pytest.fixture
def sealed(made, do):
    seal(made, do)
    return made


def test_a_release_that_is_as_it_was_can_be_gone_back_to(sealed, do):
    log = do(do="intact", release=str(sealed))
    assert log.endswith(f"hold {sealed} to what it was\n")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            lambda folder: (folder / "lib/python3.11/site-packages/a.py").write_text("22"),
            r"^r was changed since it was sealed: lib/python3\.11/site-packages/a\.py changed$",
        ),
        (lambda folder: (folder / release.FILES).unlink(), "^r: the list of its files is gone$"),
        (shutil.rmtree, "^r: the list of its files is gone$"),
    ],
    ids=["a file was changed", "its list is gone", "it is gone"],
)
def test_a_release_that_is_not_can_t(sealed, do, spoil, reason):
    spoil(sealed)
    with pytest.raises(ActionFailed, match=reason) as caught:
        do(do="intact", release=str(sealed))
    assert "invoke provision" in caught.value.hint


# --- releases that go --------------------------------------------------------------------------


def test_releases_go_with_the_list_of_what_joined_them(host, do):
    for name in ("r-1", "r-2", "r-10"):
        (host.root / name / "lib").mkdir(parents=True)
        (host.root / f"{name}.txt").touch()
    gone = [str(host.root / name) for name in ("r-1", "r-2")]
    for _ in range(2):
        do(do="discard", releases=gone, beside=[])
        left = [path.name for path in host.root.glob("r-*")]
        assert sorted(left) == ["r-10", "r-10.txt"]


def test_a_release_that_a_process_uses_stays(host, do, monkeypatch):
    (host.root / "r-1").mkdir()
    users = {str(host.root / "r-1"): [f"serve (pid {number})" for number in range(5)]}
    monkeypatch.setattr(release, "users", lambda folder: users.get(folder, []))
    (host.root / "r-2").mkdir()
    gone = [str(host.root / name) for name in ("r-1", "r-2")]
    log = do(do="discard", releases=gone, beside=[])
    named = "serve (pid 0), serve (pid 1), serve (pid 2)"
    assert f"{host.root}/r-1 stays: {named} still use it\n" in log
    assert [path.name for path in host.root.glob("r-*")] == ["r-1"]


def test_what_releases_were_made_from_goes_with_them_and_what_a_feed_links_to_stays(
    host, do, uploaded
):
    feed(host, do, a=SHA)
    (host.root / "locks").mkdir()
    for name in ("a.txt", "b.txt"):
        (host.root / "locks" / name).touch()
    gone = [str(host.root / name) for name in ("feed", "locks/a.txt", "wheels/never-there")]
    for _ in range(2):
        do(do="discard", releases=[], beside=gone)
        assert [path.name for path in (host.root / "locks").iterdir()] == ["b.txt"]
        assert not (host.root / "feed").exists()
    assert (uploaded / SHA).is_file(), "another environment's feed may have a link to it"


# --- kept packages -----------------------------------------------------------------------------


@pytest.fixture
def apt(monkeypatch):
    """Stands in for `apt-get download`: puts files into the folder that it is called in."""
    fetched = []

    def run(self, argv, *, timeout, env, accepts=(0,)):
        fetched.append(argv)
        folder = argv[1].removeprefix("--chdir=")
        for word in argv[2 + len(actions.DOWNLOAD) :]:
            name, _, version = word.partition("=")
            (Path(folder) / f"{name}_{version}_amd64.deb").write_bytes(b"deb")

    monkeypatch.setattr(actions.Context, "run", run)
    return fetched


def keep(host, do, *forget):
    packages = {"libcuda1": "590.48.01-1", "nvidia-open": "590.48.01-1"}
    folder = host.root / "kept/590.48.01-1"
    do(
        do="keep",
        packages=packages,
        folder=str(folder),
        forget=[str(host.root / "kept" / name) for name in forget],
    )
    return folder


FILES = ["libcuda1_590.48.01-1_amd64.deb", "nvidia-open_590.48.01-1_amd64.deb"]


def test_packages_are_kept_once_in_a_folder_for_root_alone(host, do, apt):
    for _ in range(2):
        folder = keep(host, do)
        assert sorted(path.name for path in folder.iterdir()) == FILES
    assert len(apt) == 1
    assert apt[0][2:6] == ("apt-get", "download", "-o", "APT::Sandbox::User=root")
    assert [folder.stat().st_mode & 0o777 for folder in (folder, folder.parent)] == [0o700] * 2


def test_what_an_interrupted_fetch_left_is_cleaned_away(host, do, apt, monkeypatch):
    fetch = actions.Context.run

    def cut_short(self, argv, **options):
        fetch(self, argv[:-1], **options)
        (Path(argv[1].removeprefix("--chdir=")) / "partial.deb").touch()
        raise ActionFailed("env exits 100")

    with monkeypatch.context() as patch:
        patch.setattr(actions.Context, "run", cut_short)
        with pytest.raises(ActionFailed):
            keep(host, do, "580.1-1")
    assert [path.name for path in (host.root / "kept").iterdir()] == [".590.48.01-1.part"]
    folder = keep(host, do)
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert list(folder.parent.iterdir()) == [folder]


def test_older_ones_are_forgotten_once_the_new_are_there(host, do, apt):
    for name in ("575.1-1", "580.1-1", "595.1-1"):
        (host.root / "kept" / name).mkdir(parents=True)
    keep(host, do, "575.1-1", "580.1-1")
    assert sorted(path.name for path in (host.root / "kept").iterdir()) == [
        "590.48.01-1",
        "595.1-1",
    ]
