"""What the probe says of environments: the release that counts, and who changed what in it."""

import json
import os

import pytest
from samples import accepted

from provision import facts
from provision.remote import release
from provision.remote.collectors import environments
from provision.remote.command import Failed

SEALED_AT = 1.7e9
GPUS = {"gpus": ["12.0", "9.0", "12.0"]}


@pytest.fixture
def root(tmp_path):
    """An environment whose newer release is current and sealed; the older was left half made."""
    current = tmp_path / "releases/abc-2"
    for name in ("Flash_Attn-2.8.3.dist-info", "torch-2.9.1+cu130.dist-info", "torch"):
        folder = current / "lib/python3.12/site-packages" / name
        folder.mkdir(parents=True)
        os.utime(folder, (SEALED_AT - 10, SEALED_AT - 10))
    (current / "bin").mkdir()
    release.seal(
        current, {"lock": "00ff", "wheels": {"flash-attn": "11"}, "python": "3.12.12"} | GPUS
    )
    os.utime(current / release.MANIFEST, (SEALED_AT, SEALED_AT))
    (tmp_path / "releases/abc-1").mkdir()
    (tmp_path / "current").symlink_to("releases/abc-2")
    return tmp_path


def described(root, wanted=("abc",)):
    """What the controller makes of it."""
    return accepted("environments", {"main": environments.describe(root, wanted)})["main"]


def site(root):
    return root / "current/lib/python3.12/site-packages"


def test_environments(root):
    roots = {"main": str(root), "other": str(root / "none")}
    asked = {"environments": {n: {"root": one, "wanted": ["abc"]} for n, one in roots.items()}}
    assert accepted("environments", environments.collect(asked)) == {
        "main": facts.Environment(
            release="abc-2",
            lock="00ff",
            wheels={"flash-attn": "11"},
            python="3.12.12",
            intact=True,
            changes=[],
            distributions={"flash-attn": "2.8.3", "torch": "2.9.1+cu130"},
            moved={},
            broken=None,
            proved={"12.0": 2, "9.0": 1},
            older={},
            sizes={"abc-2": 2 * len(release.GUARD)},
            stored=[],
            releases={"abc-1": None, "abc-2": "2023-11-14T22:13:20.000Z"},
        ),
        "other": None,
    }


def test_before_the_first_switch(root):
    (root / "current").unlink()
    found = described(root)
    assert (found.release, found.lock, found.python, found.wheels) == (None, None, None, {})
    assert found.releases == {"abc-1": None, "abc-2": "2023-11-14T22:13:20.000Z"}


def test_without_a_manifest(root):
    (root / "current" / release.MANIFEST).unlink()
    found = described(root)
    assert (found.release, found.lock, found.intact) == ("abc-2", None, False)
    assert found.releases["abc-2"] is None


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"lock": "00ff"}', '{"wheels": 1}'])
def test_a_manifest_that_is_gone_or_damaged_says_nothing(text):
    nothing = {"lock": None, "python": None, "files": None, "wheels": {}, "proved": {}}
    assert environments.parse_manifest(text) == nothing


@pytest.mark.parametrize(
    ("gpus", "proved"), [({}, {}), ({"gpus": []}, {}), (GPUS, {"12.0": 2, "9.0": 1})]
)
def test_a_seal_says_for_which_gpus_the_extensions_were_proved(gpus, proved):
    about = {"lock": "00ff", "wheels": {}, "python": "3.12.12", "files": "11"}
    found = environments.parse_manifest(json.dumps(about | gpus))
    assert (found["proved"], found["lock"]) == (proved, "00ff")


def test_a_file_that_was_added(root):
    (site(root) / "torch/late.py").touch()
    found = described(root)
    assert found.intact is False
    assert found.changes == [
        facts.FileChange(path="lib/python3.12/site-packages/torch/late.py", what="added")
    ]


def test_a_release_whose_list_of_files_is_gone_is_not_intact_and_names_none(root):
    (site(root) / "torch/late.py").touch()
    (root / "current" / release.FILES).unlink()
    found = described(root)
    assert (found.intact, found.changes) == (False, [])


def test_who_put_a_distribution_there_and_when(root):
    folder = site(root) / "numpy-2.4.0.dist-info"
    folder.mkdir()
    (folder / "INSTALLER").write_text("pip\n")
    os.utime(folder, (SEALED_AT + 60, SEALED_AT + 60))
    found = described(root)
    assert found.moved == {"numpy": facts.Moved(by="pip", at=SEALED_AT + 60)}
    assert found.broken is None  # no Numba is there to complain


def test_what_numba_says_of_another_numpy(root):
    python = root / "current/bin/python"
    python.write_text(
        "#!/bin/sh\necho 'Numba needs NumPy 2.2 or less. Got NumPy 2.4.' >&2\nexit 1\n"
    )
    python.chmod(0o755)
    numba = site(root) / "numba-0.61.2.dist-info"
    numba.mkdir()
    (numba / "METADATA").write_text("Name: numba\nRequires-Dist: numpy<2.3,>=1.24\n")
    os.utime(numba, (SEALED_AT - 10, SEALED_AT - 10))
    (site(root) / "numpy-2.4.0.dist-info").mkdir()
    assert described(root).broken == (
        "Numba needs NumPy 2.2 or less. Got NumPy 2.4.; numba requires numpy<2.3,>=1.24"
    )


def test_a_release_without_python(root):
    (root / "current/lib").rename(root / "current/library")
    with pytest.raises(Failed, match="has no Python"):
        environments.describe(root, [])


def test_the_manifest_is_json_that_names_what_joined(root):
    manifest = json.loads((root / "current" / release.MANIFEST).read_text())
    assert manifest["wheels"] == {"flash-attn": "11"}


def test_a_current_that_is_no_link_is_told_with_what_to_do(root):
    (root / "current").unlink()
    (root / "current").mkdir()
    with pytest.raises(Failed, match="current is no link to a release: move it away"):
        environments.describe(root, [])


def test_a_current_that_leads_elsewhere_is_no_release_of_ours(root):
    (root / "current").unlink()
    (root / "current").symlink_to("/usr")
    found = described(root)
    assert (found.release, found.lock) == (None, None)
    assert "abc-2" in found.releases


def test_what_releases_are_made_from_is_told(root):
    for name in ("locks/00ff.txt", "wheels/1111/a.whl", "feed/00ff/a.whl", "feed/00fe/a.whl"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    assert described(root).stored == ["feed/00fe", "feed/00ff", "locks/00ff.txt", "wheels/1111"]


@pytest.fixture
def older(root):
    """The older release was finished, too, from another lock."""
    folder = root / "releases/abc-1"
    (folder / "bin").mkdir()
    release.seal(folder, {"lock": "00fe", "wheels": {}, "python": "3.11.2"} | GPUS)
    return folder


@pytest.mark.parametrize(
    ("wanted", "touched", "intact"),
    [(["abc"], None, None), (["abd"], None, True), ([], None, True), (["abc"], "current", True)],
    ids=["the current one is as asked", "another is", "for a rollback", "it was changed"],
)
def test_the_others_files_are_looked_at_where_the_current_one_is_not_as_asked(
    root, older, wanted, touched, intact
):
    if touched:
        (root / touched / "late.py").touch()
    assert described(root, wanted).older == {
        "abc-1": facts.Sealed(lock="00fe", wheels={}, python="3.11.2", intact=intact)
    }
    (older / "late.py").touch()
    assert described(root, wanted).older["abc-1"].intact is (False if intact else None)


def test_where_none_is_current_all_others_are_looked_at(root, older):
    (root / "current").unlink()
    assert {name: one.intact for name, one in described(root).older.items()} == {
        "abc-1": True,
        "abc-2": True,
    }
