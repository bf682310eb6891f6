"""A finished build comes home: the wheel, what stands beside it, what was learned, the index."""

import hashlib

import pytest
from builds import FILE, UNITS, WHEEL, finished, known, measured, planned, said, target

from provision import wheelhouse
from provision.errors import ProvisionError
from provision.follow import NotConverged
from wheels import describe, profile, provenance
from wheels.build import bring, caused

NVCC = "nvcc 13.1"


@pytest.fixture
def profiles(tmp_path, monkeypatch):
    """The folder of profiles: empty."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    monkeypatch.setattr(profile, "FOLDER", folder)
    return folder


def brought(folder, build=None, **changes):
    """What was told; the wheelhouse lies in `folder`."""
    told = []
    bring(target("h", *finished(said(**changes))), build or planned(), told.append, folder)
    return [event["text"] for event in told]


def test_a_wheel_comes_in_with_its_manifest_its_provenance_and_its_index(tmp_path, profiles):
    brought(tmp_path)
    (manifest,) = wheelhouse.load(tmp_path)
    assert (manifest.file, manifest.archs) == (FILE, ("9.0",))
    assert manifest.sha256 == hashlib.sha256(WHEEL).hexdigest()
    assert wheelhouse.content([manifest], manifest.sha256, tmp_path) == WHEEL
    found = provenance.load(provenance.place(FILE, tmp_path))
    assert {one.unit for one in found.units} == set(UNITS)
    assert manifest.sha256 in (tmp_path / "simple/lab-kernels/index.html").read_text()


def test_the_next_plan_knows_what_was_measured(tmp_path, profiles):
    before = planned(known=profile.load("lab-kernels"))
    assert {one.basis.split(":")[0] for one in before.predictions} == {"a guess"}
    assert brought(tmp_path) == [
        "the profile lab-kernels was updated with what this build has measured"
    ]
    after = planned(known=profile.load("lab-kernels"))
    assert {one.basis for one in after.predictions} == {f"measured with {NVCC} for 9.0"}
    peaks = {one.unit.name: one.unit.curve.peak for one in after.predictions}
    assert peaks == {row["unit"]: row["peak"] for row in said()["units"]}
    assert any(
        f"{len(UNITS)} units (3 measured with {NVCC} for 9.0)" in line
        for line in describe.lines(after)
    )


def test_what_is_known_of_other_compilers_stays(tmp_path, profiles):
    row = profile.learned(None, [measured(UNITS[0], 5000)], compiler="nvcc 12.8", arch="90")
    profile.save("lab-kernels", known(*row.measured))
    brought(tmp_path)
    rows = profile.load("lab-kernels").measured
    assert sorted(one.compiler for one in rows if one.unit == UNITS[0]) == ["nvcc 12.8", NVCC]


def test_a_build_that_only_found_what_was_there_teaches_nothing(tmp_path, profiles):
    brought(tmp_path)
    content = (profiles / "lab-kernels.json").read_bytes()
    assert brought(tmp_path) == []
    assert (profiles / "lab-kernels.json").read_bytes() == content


@pytest.mark.parametrize(
    "units", [[], [{**measured(UNITS[0], 900), "exit": 137, "killed": True}]], ids=["no", "killed"]
)
def test_without_a_finished_unit_nothing_is_learned(tmp_path, profiles, units):
    assert brought(tmp_path, units=units) == []
    assert list(profiles.iterdir()) == []


def test_a_build_of_several_archs_teaches_nothing_yet(tmp_path, profiles):
    several = planned(archs={"9.0": "ours", "12.0": "theirs"})
    assert brought(tmp_path, several) == []
    assert list(profiles.iterdir()) == []
    assert len(wheelhouse.load(tmp_path)) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"file": "../../etc/passwd"}, "the build's report can't be read"),
        ({"proof": None}, "the build's report can't be read"),
        ({"units": [3]}, "the build's measurements can't be read"),
        ({"units": [{"unit": "a.cu", "exit": 0}]}, "the build's measurements can't be read"),
        ({"units": [measured(UNITS[0], 900, cpu=0.0)]}, "the build's measurements can't be read"),
        ({"units": None}, "the build's measurements can't be read"),
    ],
)
def test_a_report_that_is_not_right_lets_nothing_in(tmp_path, profiles, changes, says):
    house = tmp_path / "dist"
    with pytest.raises(ProvisionError, match=f"^h: {says}"):
        brought(house, **changes)
    assert not house.exists()
    assert list(profiles.iterdir()) == []


def test_where_a_wheel_can_t_be_kept_it_stays_on_the_host_and_that_is_said(tmp_path, profiles):
    (tmp_path / "dist").write_text("a file")
    with pytest.raises(ProvisionError) as caught:
        brought(tmp_path / "dist")
    assert caught.value.what == f"{tmp_path}/dist: can't be changed: File exists"
    assert "the wheel stays on h" in caught.value.hint


STATE = '@build {"event": "state", "done": 1}'
FAILED = '@build {"event": "failed", "reason": "the build exits 1: x.cu(4): error: no"}'


@pytest.mark.parametrize(
    ("log", "what", "shown"),
    [
        (
            ("x.cu(4): error: no", STATE, FAILED),
            "exits 1: the build exits 1: x.cu(4): error: no",
            1,
        ),
        (("a", STATE, '@build {"event": "failed", "rea'), "exits 1", 1),
        ((), "exits 1", 0),
    ],
)
def test_a_build_that_fails_says_its_own_reason(log, what, shown):
    error = caused(NotConverged("exits 1", hint="look", log=log))
    assert (error.what, error.hint, error.log) == (what, "look", log[:shown])


def test_a_wheelhouse_that_takes_none_is_told_before_a_build(tmp_path):
    wheelhouse.make_ready(tmp_path / "a/b")
    assert list((tmp_path / "a/b").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(ProvisionError, match="file: can't be changed: File exists"):
        wheelhouse.make_ready(tmp_path / "file")
