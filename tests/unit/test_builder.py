"""The builder's report, from the records that a build leaves; the build itself is simulated."""

import hashlib
import json
import subprocess

import pytest
from builds import FILE, measured

from provision.remote.command import Failed
from wheels.remote import builder, label, records, tree, trial


@pytest.fixture
def simulated(tmp_path, monkeypatch):
    """A build that makes a wheel, and whose gate leaves these records."""

    def build(*rows, spent=()):
        def compile_(order, folder, source, made):
            (made / FILE).write_bytes(b"a wheel")
            for row in rows:
                records.append(folder / "units.jsonl", row)
            records.append(folder / "memory.jsonl", {"at": 1.0, "used": 5, "running": 1})

        for place, name, result in (
            (tree, "link", None),
            (tree, "unpack", None),
            (label, "pin", None),
            (trial, "inspect", {"kernels": {"skipped": "simulated"}}),
            (builder, "_compiler", "nvcc"),
            (builder, "_environment", "/nowhere"),
        ):
            monkeypatch.setattr(place, name, lambda *_, result=result: result)
        monkeypatch.setattr(builder, "_compile", compile_)
        order = {"home": "/nowhere", "links": {}, "pins": {}, "spent": list(spent)}
        builder.build(order, tmp_path)
        return json.loads((tmp_path / "done" / "report.json").read_text())

    return build


def test_the_report_has_every_attempt_killed_ones_too(simulated):
    killed = {**measured("a.cu", 900), "exit": 137, "killed": True, "made": None}
    rows = [killed, measured("a.cu", 900), measured("b.cu", 500)]
    report = simulated(*rows)
    assert report["units"] == rows
    assert (report["file"], report["memory"]) == (FILE, [{"at": 1.0, "used": 5, "running": 1}])


def test_a_build_that_was_resumed_keeps_what_the_runs_before_it_recorded(simulated):
    simulated(measured("a.cu", 900))
    report = simulated(measured("b.cu", 500))
    assert [row["unit"] for row in report["units"]] == ["a.cu", "b.cu"]
    assert len(report["memory"]) == 2


WHEEL = hashlib.sha256(b"a wheel").hexdigest()


def test_nothing_is_taken_of_a_build_whose_wheel_is_spent(simulated, tmp_path):
    simulated(measured("a.cu", 900))
    (tmp_path / "source").mkdir()
    report = simulated(measured("b.cu", 500), spent=[WHEEL])
    assert [row["unit"] for row in report["units"]] == ["b.cu"]
    assert not (tmp_path / "source").exists()


def test_a_build_that_was_cut_off_goes_on_whatever_is_spent(simulated, tmp_path):
    records.append(tmp_path / "units.jsonl", measured("a.cu", 900))
    report = simulated(measured("b.cu", 500), spent=[WHEEL])
    assert [row["unit"] for row in report["units"]] == ["a.cu", "b.cu"]


def test_a_wheel_that_nobody_fetched_is_not_compiled_again(simulated, tmp_path):
    simulated(measured("a.cu", 900))
    (tmp_path / "source").mkdir()
    simulated(spent=["0" * 64])
    assert (tmp_path / "source").exists()


def test_a_build_that_is_to_stop_ends_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "active", lambda: {"run": "r1"})
    monkeypatch.setattr(builder, "cancelled", {"r1": "me"}.get)
    log = tmp_path / "log"
    log.touch()
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            with pytest.raises(Failed, match="it was asked to stop; what was compiled stays"):
                builder._watch(process, None, log, [])
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("says", "wrong"),
    [
        ("echo Cuda compilation tools, release 13.1, V13.1.115", "is of release 13.1, the recipe"),
        ("exit 1", "does not say its release"),
    ],
)
def test_nvcc_is_of_the_release_that_the_recipe_names(tmp_path, says, wrong):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text(f"#!/bin/sh\n{says}\n")
    nvcc.chmod(0o755)
    with pytest.raises(Failed, match=wrong):
        builder._compiler({"home": str(tmp_path), "release": "99.9"})


def test_an_nvcc_that_is_not_there_is_named(tmp_path):
    with pytest.raises(Failed, match="bin/nvcc can't be run"):
        builder._compiler({"home": str(tmp_path), "release": "13.1"})
