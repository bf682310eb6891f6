"""The builder's report, from the records that a build leaves; the build itself is simulated."""

import json

import pytest
from builds import FILE, measured

from wheels.remote import builder, label, records, tree, trial


@pytest.fixture
def simulated(tmp_path, monkeypatch):
    """A build that makes a wheel, and whose gate leaves these records."""

    def build(*rows):
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
            (builder, "_environment", "/nowhere"),
            (builder, "_host", {}),
        ):
            monkeypatch.setattr(place, name, lambda *_, result=result: result)
        monkeypatch.setattr(builder, "_compile", compile_)
        builder.build({"home": "/nowhere", "links": {}, "pins": {}}, tmp_path)
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
