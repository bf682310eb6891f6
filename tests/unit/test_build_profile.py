"""What is known of a recipe's units, and what follows for others."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.errors import UsageError
from tests.steady import steady
from wheels import profile
from wheels.profile import (
    GUESS,
    TOLERANCE,
    Measured,
    Profile,
    distance,
    learned,
    load,
    predict,
    save,
)
from wheels.remote.curve import Curve

MIB = 2**20
NVCC = "nvcc 13.1"

LAW = [
    # archs, threads, MiB at most, CPU seconds: flash_fwd_hdim32_bf16_causal_sm80.cu, nvcc 13.1,
    # measured on two loaded cores, 2026-11-29
    (1, 1, 3164, 102.2),
    (2, 1, 3164, 167.1),
    (2, 2, 6309, 181.1),
    (4, 4, 12501, 412.9),
]


def measured(unit, *, peak=1000.0, compiler=NVCC, device=(10.0, 90.0)):
    return Measured(
        unit=unit,
        compiler=compiler,
        arch="120",
        cpu_seconds=100.0,
        device_seconds=device,
        shape_of=None,
        curve_mib=((0.0, 100.0), (10.0, 100.0), (50.0, peak), (55.0, 300.0), (100.0, 200.0)),
    )


def known(*rows):
    return Profile(source="a test", machine="none", measured=rows)


def one(rows, name, *, archs=1, threads=1, compiler=NVCC):
    (found,) = predict(rows, [name], archs=archs, threads=threads, compiler=compiler)
    return found


@pytest.mark.parametrize(("archs", "threads", "peak", "cpu"), LAW)
def test_several_archs_take_what_was_measured(archs, threads, peak, cpu):
    name = "flash_fwd_hdim32_bf16_causal_sm80.cu"
    unit = one(load("flash-attn"), name, archs=archs, threads=threads).unit
    assert unit.curve.peak / MIB == pytest.approx(peak, rel=0.02)
    assert unit.curve.duration * unit.cores == pytest.approx(cpu, rel=0.15)


def test_more_threads_than_archs_change_nothing():
    rows = known(measured("a.cu"))
    assert one(rows, "a.cu", archs=2, threads=9).unit == one(rows, "a.cu", archs=2, threads=2).unit


def test_archs_after_one_another_take_longer_and_no_more_memory():
    rows = known(measured("a.cu"))
    alone, three = one(rows, "a.cu").unit, one(rows, "a.cu", archs=3).unit
    assert three.curve.peak == alone.curve.peak
    assert three.curve.duration == pytest.approx(20 + 3 * 80)
    assert three.cores == pytest.approx(1.0)
    assert [three.curve.at(50.0 + turn * 80) for turn in range(3)] == [1000 * MIB] * 3


def test_a_last_turn_of_fewer_archs_takes_less():
    five = one(known(measured("a.cu")), "a.cu", archs=5, threads=4).unit
    assert five.curve.peak == 4000 * MIB
    assert five.curve.at(50.0 + 80.0) == 1000 * MIB
    assert five.cores == pytest.approx((20 + 5 * 80) / (20 + 2 * 80))


def test_what_is_not_for_gpus_knows_no_archs():
    rows = known(measured("a.cpp", device=None))
    assert one(rows, "a.cpp", archs=4, threads=4).unit == one(rows, "a.cpp").unit


def test_the_compiler_s_own_measurement_counts_else_the_heaviest():
    rows = known(
        measured("a.cu", peak=1000.0),
        measured("a.cu", peak=1200.0, compiler="nvcc 12.4"),
        measured("a.cu", peak=1100.0, compiler="nvcc 13.0"),
    )
    assert one(rows, "a.cu").unit.curve.peak == 1000 * MIB
    assert one(rows, "a.cu", compiler="nvcc 12.8").unit.curve.peak == 1200 * MIB


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("attn_bwd_dim64_half.cu", "attn_bwd_dim64_float.cu"),
        ("attn_bwd_dim72_float.cu", "attn_bwd_dim64_float.cu"),
        ("attn_bwd_dim200_float_more.cu", "attn_bwd_dim256_float.cu"),
        ("attn_fwd_dim256_float.cu", "attn_fwd_dim32_float.cu"),
        ("something_else.cpp", "api.cpp"),
    ],
)
def test_the_most_similar_name_tells_for_one_that_was_not_measured(name, nearest):
    names = [
        *("attn_bwd_dim64_float.cu", "attn_bwd_dim256_float.cu"),
        *("attn_fwd_dim32_float.cu", "api.cpp"),
    ]
    rows = known(*(measured(name, peak=1000.0 + 100 * at) for at, name in enumerate(names)))
    found = one(rows, name)
    assert found.basis == f"as {nearest}, measured with {NVCC} for 12.0"
    assert found.unit.curve == one(rows, nearest).unit.curve
    assert found.unit.name == name


def test_a_name_is_like_itself_and_likeness_goes_both_ways():
    names = ["a_b12.cu", "a_b13.cu", "a.cpp", "", ".", "12", "a_a_a.cu", "B12_x9999999999999.cu"]
    for first in names:
        for second in names:
            assert distance(first, second) == pytest.approx(distance(second, first))
        assert distance(first, first) == 0


def test_a_prediction_says_that_it_was_measured():
    assert one(known(measured("a.cu")), "a.cu").basis == f"measured with {NVCC} for 12.0"


def test_without_a_profile_it_is_one_guess_and_says_so():
    found = one(None, "a.cu", archs=2, threads=2)
    assert found.basis.startswith("a guess")
    assert found.unit.curve.peak == 2 * GUESS.peak


def test_the_guess_is_no_lighter_than_anything_measured():
    rows = load("flash-attn").measured
    assert max(row.curve.peak for row in rows) <= GUESS.peak
    assert max(row.curve.area for row in rows) <= GUESS.area


def test_every_unit_of_flash_attn_is_told_by_one_of_its_own_kind():
    """By the 20 that nvcc 13.1 was measured with."""
    rows = load("flash-attn").measured
    few = known(*(row for row in rows if row.compiler == NVCC))
    names = {row.unit for row in rows} - {"flash_api.cpp"}
    found = {name: one(few, name).basis for name in names}
    assert len(found) == 72
    told = {name: basis for name, basis in found.items() if basis.startswith("as ")}
    assert len(told) == 52
    for name, basis in told.items():
        kind, _, _ = name.partition("_hdim")
        assert basis.startswith(f"as {kind}_hdim")


SEEN = [
    # CPU seconds, MiB: the host's part, which has gone by 6 s, then a rise, a fall, a level rest
    *((0, 80), (2, 900), (4, 700), (6, 150), (8, 400), (10, 600)),
    *((second, 600 + 60 * (second - 10)) for second in range(12, 50, 2)),
    *((second, 800) for second in range(50, 100, 2)),
]


def record(unit="a.cu", *, cpu=100.0, seen=SEEN, peak=None, ended=0):
    """As the server writes one of a unit that ended."""
    curve = [[float(seconds), round(mib * MIB)] for seconds, mib in seen]
    peak = peak or max(size for _, size in curve)
    killed = ended == 137
    row = {"unit": unit, "command": "0", "exit": ended, "killed": killed, "made": None}
    times = {"start": 1000.0, "end": 1000.0 + cpu, "cpu": cpu}
    return row | times | {"peak": peak, "predicted": peak, "curve": curve}


def learn(before, *records, compiler=NVCC, arch="120"):
    return learned(before, records, compiler=compiler, arch=arch).measured


class TestLearning:
    def test_a_unit_s_record_becomes_its_row(self):
        (row,) = learn(None, record(peak=3000 * MIB), compiler="nvcc 13.0", arch="90")
        assert (row.unit, row.compiler, row.arch) == ("a.cu", "nvcc 13.0", "90")
        assert (row.cpu_seconds, row.curve.duration) == (100.0, 100.0)
        assert row.device_seconds == (6.0, pytest.approx(97.0))
        assert row.curve.peak == 3000 * MIB, "what was seen between two samples"
        assert row.curve.reaches(row.curve.peak) == 48.0
        assert row.curve.at(75.0) == pytest.approx(800 * MIB, rel=0.01)

    def test_the_next_build_is_told_by_it(self):
        profile = learned(known(measured("b.cu")), [record()], compiler=NVCC, arch="120")
        assert one(None, "a.cu").basis.startswith("a guess")
        found = one(profile, "a.cu")
        assert found.basis == f"measured with {NVCC} for 12.0"
        assert found.unit.curve.peak == max(size for _, size in SEEN) * MIB

    def test_what_failed_or_was_killed_or_hardly_seen_tells_nothing(self):
        before = known(measured("a.cu"))
        for useless in (record(ended=1), record(ended=137), record(seen=SEEN[:2])):
            assert learn(before, useless) == before.measured

    def test_of_several_runs_the_last_that_was_good_counts(self):
        runs = [record(cpu=110.0), record(ended=137, cpu=30.0), record(cpu=120.0), record(ended=1)]
        assert [row.cpu_seconds for row in learn(None, *runs)] == [120.0]

    def test_what_was_known_of_others_stays(self):
        stay = [measured("a.cu", compiler="nvcc 12.4"), measured("b.cu"), measured("z.cpp")]
        before = known(measured("a.cu", peak=500.0), *stay)
        after = learn(before, record(), record("c.cu"))
        assert [row for row in after if row in before.measured] == stay
        assert [(row.unit, row.compiler) for row in after] == [
            *(("a.cu", "nvcc 12.4"), ("a.cu", NVCC), ("b.cu", NVCC), ("c.cu", NVCC)),
            ("z.cpp", NVCC),
        ]
        another_arch = learn(before, record(), arch="90")
        assert sorted(row.arch for row in another_arch if row.unit == "a.cu") == [
            "120",
            "120",
            "90",
        ]

    @steady(100)
    @given(st.lists(st.integers(1, 9000), min_size=3, max_size=60))
    def test_a_kept_curve_is_near_every_sample(self, sizes):
        seen = [(2 * index, size) for index, size in enumerate(sizes)]
        (row,) = learn(None, record(cpu=2.0 * len(seen), seen=seen))
        peak = max(sizes) * MIB
        assert row.curve.peak == peak
        for seconds, size in seen:
            off = abs(row.curve.at(seconds) - size * MIB)
            assert off <= TOLERANCE * peak + 1

    def test_points_on_one_line_are_not_kept(self):
        line = [(second, 1100 - 10 * second) for second in range(0, 100, 2)]
        (row,) = learn(None, record(seen=line, cpu=98.1))
        assert len(row.curve.points) == 2


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(profile, "FOLDER", tmp_path)
        return tmp_path

    def rows(self, **changes):
        row = json.loads(measured("a.cu").model_dump_json())
        return {"source": "a test", "machine": "none", "measured": [{**row, **changes}]}

    def test_there_need_not_be_one(self, folder):
        assert load("nothing") is None

    def test_what_it_says_is_what_is_read(self, folder):
        (folder / "x.json").write_text(json.dumps(self.rows()))
        assert load("x") == known(measured("a.cu"))
        assert isinstance(load("x").measured[0].curve, Curve)

    def test_what_is_saved_is_what_is_loaded_a_row_a_line(self, folder):
        profile = known(*learn(None, record(), record("b.cpp")), measured("c.cu", device=None))
        save("x", profile)
        save("x", profile)
        assert load("x") == profile
        assert [path.name for path in folder.iterdir()] == ["x.json"]
        text = (folder / "x.json").read_text()
        assert sum('"unit":' in line for line in text.splitlines()) == 3

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "x.json: not a profile"),
            ("[]", "x.json: expected an object"),
            ('{"source": "a"}', "x.json: machine"),
        ],
    )
    def test_a_file_that_is_none_is_one_message(self, folder, text, says):
        (folder / "x.json").write_text(text)
        with pytest.raises(UsageError, match=says):
            load("x")

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"curve_mib": [[0, 1], [0, 2]]}, "times rise"),
            ({"device_seconds": [50, 40]}, "device_seconds lies outside"),
            ({"device_seconds": [50, 400]}, "device_seconds lies outside"),
            ({"device_seconds": [5, 50.005]}, "device_seconds ends too near"),
            ({"curve_mib": [[0, 1], [9, 1e308]]}, "curve_mib"),
            ({"arch": "9"}, "arch"),
            ({"cpu_seconds": math.inf}, "cpu_seconds"),
            ({"cpu_seconds": 0}, "cpu_seconds"),
            ({"memory": 1}, "memory"),
        ],
    )
    def test_a_bad_row_is_named(self, folder, changes, says):
        (folder / "x.json").write_text(json.dumps(self.rows(**changes)))
        with pytest.raises(UsageError, match=rf"x.json: measured.0.*{says}"):
            load("x")
