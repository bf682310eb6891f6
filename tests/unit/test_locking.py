"""Locks as data: their text, what they are made of, what is asked of uv, how locks differ."""

import itertools
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision import stack
from provision.locking import difference, merge, question, text
from provision.locking.inputs import Inputs, header, inputs, meant
from provision.locking.text import Pin
from provision.locking.wheels import BuiltFor, built_for

SHA = f"sha256:{'0' * 64}"
OTHER = f"sha256:{'1' * 64}"
ASKED = Inputs(
    requirements=("numpy<2.3", "six; python_version >= '3.12'"),
    python=">=3.11,<3.13",
    pythons=("3.11.0", "3.12.0"),
    platform="manylinux_2_31",
    date=date(2026, 2, 15),
)


def pin(name, version, marker="", hashes=(SHA,)):
    return Pin(name=name, version=version, marker=marker, hashes=hashes)


SIX = pin("six", "1.17.0", 'python_version >= "3.12"')
GOOD = (pin("numpy", "2.2.6"), SIX)


def written(*pins, asked=ASKED):
    return text.write(asked.header, pins or GOOD)


# --- text ----------------------------------------------------------------------------------------


def test_a_lock_s_text():
    found = text.write(["a: b"], [pin("numpy", "2.2.6", hashes=(SHA, OTHER)), SIX])
    assert found == (
        f"# a: b\nnumpy==2.2.6 \\\n    --hash={SHA} \\\n    --hash={OTHER}\n"
        f'six==1.17.0 ; python_version >= "3.12" \\\n    --hash={SHA}\n'
    )


MARKERS = st.sampled_from(["", 'python_version >= "3.12"', 'python_version == "3.11"'])
PINS = st.builds(
    Pin,
    name=st.sampled_from(["numpy", "a", "nvidia-cuda-runtime-cu12", "x-1"]),
    version=st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}(\+[a-z0-9]{1,9})?", fullmatch=True),
    hashes=st.lists(st.sampled_from([SHA, OTHER]), unique=True).map(tuple),
    marker=MARKERS,
)


@given(st.lists(PINS, max_size=5))
def test_what_is_written_is_read(pins):
    assert text.read(text.write(["a lock"], pins)) == tuple(pins)


def test_a_hash_may_stand_on_the_pin_s_own_line():
    assert text.read(f"numpy==2.2.6 --hash={SHA}\n") == (pin("numpy", "2.2.6"),)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("numpy", "expected NAME==VERSION and hashes, got 'numpy'"),
        ("numpy==2.2-.6 --hash=sha256:" + "0" * 64, "'2.2-.6' is no version"),
        ("numpy>=2.2", "got 'numpy>=2.2'"),
        ("--index-url http://index.example/simple", "got '--index-url"),
        ("numpy @ http://index.example/numpy.whl", "got 'numpy @"),
        ("numpy==2.2.6 --no-binary", "got 'numpy==2.2.6 --no-binary'"),
        ("==2.2.6", "got '==2.2.6'"),
        ("numpy==", "got 'numpy=='"),
        ("-e .", "got '-e .'"),
        ("numpy==2.2.6 ; python_versoin > '3'", "is no marker"),
    ],
)
def test_a_line_that_is_no_pin_is_named(line, words):
    with pytest.raises(ValueError, match=r"^line 4: ") as caught:
        text.read(f"# a lock\nsix==1 \\\n  --hash={SHA}\n{line}\n")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("marker", "python", "applies"),
    [
        ("", "3.11.2", True),
        ('python_version >= "3.10"', "3.9.1", False),
        ('python_version >= "3.9"', "3.10.0", True),
        ('python_version == "3.11" or python_version == "3.13"', "3.13.5", True),
        ('python_version == "3.11" or python_version == "3.13"', "3.12.5", False),
        ('python_full_version < "3.11.4"', "3.11.3", True),
    ],
)
def test_a_pin_applies_to_the_pythons_of_its_marker(marker, python, applies):
    assert pin("a", "1", marker).applies(python) is applies


# --- inputs --------------------------------------------------------------------------------------


def test_the_header_says_what_the_lock_was_made_of():
    said = header(written())
    assert {name: said[name] for name in ASKED.words} == {
        "requirements": "numpy<2.3, six; python_version >= '3.12'",
        "python": ">=3.11,<3.13",
        "platform": "x86_64 manylinux_2_31",
        "date": "2026-02-15",
    }
    assert said["digest"] == ASKED.digest


@pytest.mark.parametrize(
    ("requirement", "read_as"),
    [
        ("numpy<=2.2", "numpy<2.3"),
        ("NumPy <= 1.26", "NumPy<1.27"),
        ("numpy>=1.26,<=2.2", "numpy<2.3,>=1.26"),
        ("numpy<=2.2.6", "numpy<=2.2.6"),
        ("numpy<=2", "numpy<=2"),
        ("numpy<2.3", "numpy<2.3"),
        ("numpy==2.2", "numpy==2.2"),
        ("pytz<=2025.2", "pytz<=2025.2"),
    ],
)
def test_up_to_a_series_of_numpy_is_the_series(requirement, read_as):
    assert meant(requirement) == read_as


@pytest.mark.parametrize(
    ("wheel", "built"),
    [
        ("flash-attn==2.8.3+cu128torch2.9.1", BuiltFor(torch="2.9.1", cuda="12.8")),
        ("flash-attn==2.8.3+cu130torch2.10.0", BuiltFor(torch="2.10.0", cuda="13.0")),
        ("flash-attn==2.8.3", None),
        ("flash-attn==2.8.3+cu12torch2.9cxx11abitrue", None),
    ],
)
def test_what_a_wheel_was_built_for_stands_in_its_local_version(wheel, built):
    assert built_for(wheel) == built


def test_a_wheel_s_torch_is_required_once():
    one = stack.load("torch29-cu128")
    main = one.environment["main"]
    wheels = ("flash-attn==2.8.3+cu128torch2.9.1", "own==1")
    for required, expected in (
        (("torch==2.9.1", "vllm"), ("torch==2.9.1", "vllm")),
        (("vllm",), ("vllm", "torch==2.9.1")),
    ):
        changed = main.model_copy(update={"wheels": wheels, "requirements": required})
        found = inputs(one.model_copy(update={"environment": {"main": changed}}), "main")
        assert found.requirements == expected
        assert found.needed_by == (("torch==2.9.1", wheels[0]),)


# --- the question --------------------------------------------------------------------------------


def test_uv_is_asked_for_wheels_of_the_platform_as_of_the_end_of_the_day():
    words = question.arguments(ASKED, "3.11.0")
    pairs = dict(itertools.pairwise(words))
    assert pairs["--only-binary"] == ":all:"
    assert pairs["--python-platform"] == "x86_64-manylinux_2_31"
    assert pairs["--python-version"] == "3.11.0"
    assert pairs["--exclude-newer"] == "2026-02-16T00:00:00Z"
    assert "--generate-hashes" in words


def test_the_lock_s_version_goes_before_what_another_python_got():
    found = {"3.12.0": [pin("numpy", "2.2.6"), pin("six", "1.17.0")]}
    locked = [pin("numpy", "2.2.5"), pin("old", "1", 'python_version == "3.12"')]
    assert question.preferred(locked, found, "3.11.0") == {"numpy": "2.2.5", "six": "1.17.0"}


# --- merging -------------------------------------------------------------------------------------


def test_where_all_pythons_agree_there_is_one_plain_row():
    found = {"3.12.0": [pin("b", "1"), pin("a", "1")], "3.11.0": [pin("a", "1"), pin("b", "1")]}
    assert merge.merge(found) == [pin("a", "1"), pin("b", "1")]


def test_where_they_differ_each_row_says_for_whom():
    found = {
        "3.10.0": [pin("a", "1"), pin("b", "1", hashes=(OTHER,))],
        "3.9.0": [pin("a", "0.9"), pin("b", "1")],
        "3.11.0": [pin("a", "1")],
    }
    assert merge.merge(found) == [
        pin("a", "0.9", 'python_version == "3.9"'),
        pin("a", "1", 'python_version >= "3.10"'),
        pin("b", "1", 'python_version <= "3.10"', hashes=(SHA, OTHER)),
    ]


PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")


@given(st.sets(st.sampled_from(PYTHONS), min_size=1))
def test_a_marker_takes_exactly_its_pythons(some):
    marked = pin("a", "1", merge.marker(some, PYTHONS))
    assert {python for python in PYTHONS if marked.applies(f"{python}.7")} == some


# --- differences ---------------------------------------------------------------------------------


def test_what_moves_between_two_locks():
    before = [pin("a", "1"), pin("b", "1"), pin("c", "1"), pin("d", "1")]
    after = [
        pin("a", "1"),
        pin("b", "2"),
        pin("d", "0.9", 'python_version == "3.11"'),
        pin("d", "1", 'python_version >= "3.12"'),
        pin("e", "1"),
    ]
    assert [move.line for move in difference.moves(before, after)] == [
        "b 1 → 2",
        "c 1 is removed",
        'd 1 → 0.9 ; python_version == "3.11", 1 ; python_version >= "3.12"',
        "e 1 is added",
    ]


def test_only_other_files_of_the_same_version_are_told_as_such():
    before = [pin("a", "1"), pin("b", "1"), pin("c", "1", hashes=(SHA, OTHER))]
    after = [
        pin("a", "1", hashes=(OTHER,)),
        pin("b", "2", hashes=(OTHER,)),
        pin("c", "1", hashes=(OTHER, SHA)),
    ]
    assert difference.rehashed(before, after) == ["a"]
