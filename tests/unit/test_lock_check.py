"""When a lock is not its stack's any more, and what uv's reasons come to."""

import dataclasses
from datetime import date

import pytest

from provision import stack
from provision.locking import check, reasons, text
from provision.locking.inputs import Inputs, inputs
from provision.locking.text import Pin

SHA = f"sha256:{'0' * 64}"
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


# --- is a lock its stack's? ----------------------------------------------------------------------


def rows(found):
    return [(row.field, row.reason) for row in found]


def test_a_lock_that_is_its_stack_s():
    assert check.stale(ASKED, written()) == ()


@pytest.mark.parametrize("name", stack.names())
def test_the_shipped_locks_are_their_stacks_own(name):
    one = stack.load(name)
    found = {env: check.stale(inputs(one, env), lock.text) for env, lock in one.locks.items()}
    assert found == dict.fromkeys(one.environment, ())


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (
            "requirements",
            ("numpy", ASKED.requirements[1]),
            "locked for 'numpy<2.3', the stack says 'numpy'",
        ),
        (
            "requirements",
            ASKED.requirements[::-1],
            "the stack says \"six; python_version >= '3.12', numpy<2.3\"",
        ),
        ("python", ">=3.11,<3.14", "locked for '>=3.11,<3.13', the stack says '>=3.11,<3.14'"),
        ("platform", "manylinux_2_28", "the stack says 'x86_64 manylinux_2_28'"),
        ("date", date(2026, 3, 1), "locked for '2026-02-15', the stack says '2026-03-01'"),
    ],
)
def test_each_field_that_moves_is_named(field, value, reason):
    (moved,) = check.stale(dataclasses.replace(ASKED, **{field: value}), written())
    assert moved.field == field
    assert reason in moved.reason


def test_of_requirements_that_moved_those_are_named_that_the_lock_does_not_satisfy():
    asked = dataclasses.replace(ASKED, requirements=("numpy==2.4.0", "attrs", "six>=1.17"))
    found = check.stale(asked, written())
    assert [(row.field, row.asked, row.has) for row in found] == [
        ("requirements", "numpy==2.4.0", "2.2.6 for Python 3.11, 3.12"),
        ("requirements", "attrs", "nothing for Python 3.11, 3.12"),
        ("requirements", "six>=1.17", "nothing for Python 3.11"),
    ]


def test_a_header_that_was_changed_by_hand_is_no_way_around():
    later = dataclasses.replace(ASKED, date=date(2026, 3, 1))
    (row,) = check.stale(later, written().replace("date: 2026-02-15", "date: 2026-03-01"))
    assert row.field == "digest"


def test_a_lock_without_a_header():
    found = rows(check.stale(ASKED, text.write([], GOOD)))
    assert [field for field, _ in found] == [
        "requirements",
        "python",
        "platform",
        "date",
    ]
    assert "its header does not say" in found[0][1]


SIX_MISSING = "\"six; python_version >= '3.12'\" is asked for, the lock has nothing for Python 3.12"
BAD = {
    "a version outside a requirement": (
        (pin("numpy", "2.3.5"), SIX),
        ("requirements", "'numpy<2.3' is asked for, the lock has 2.3.5 for Python 3.11, 3.12"),
    ),
    "a version outside it for one Python": (
        (
            pin("numpy", "2.2.6", 'python_version == "3.11"'),
            pin("numpy", "2.3.5", 'python_version == "3.12"'),
            SIX,
        ),
        ("requirements", "'numpy<2.3' is asked for, the lock has 2.3.5 for Python 3.12"),
    ),
    "a requirement that is missing": (
        (pin("numpy", "2.2.6"),),
        ("requirements", SIX_MISSING),
    ),
    "a pin without hashes": (
        (pin("numpy", "2.2.6", hashes=()), SIX),
        ("hashes", "numpy==2.2.6 is not held by sha256"),
    ),
    "a hash of another kind": (
        (pin("numpy", "2.2.6", hashes=(SHA, "md5:0")), SIX),
        ("hashes", "numpy==2.2.6 is not held by sha256"),
    ),
    "two versions for one Python": (
        (*GOOD, pin("six", "1.16.0", 'python_version == "3.12"')),
        ("pins", "six stands there 2 times for Python 3.12"),
    ),
    "a pin for a Python that is not in the range": (
        (*GOOD, pin("old", "1", 'python_version == "3.10"')),
        ("python", 'old 1 ; python_version == "3.10" is for no Python of >=3.11,<3.13'),
    ),
}


@pytest.mark.parametrize("case", BAD, ids=BAD)
def test_a_lock_that_is_not_to_be_trusted(case):
    pins, (field, reason) = BAD[case]
    ((found, why),) = rows(check.stale(ASKED, written(*pins)))
    assert (found, why) == (field, reason)


def test_an_address_has_no_place_in_a_lock():
    (row,) = check.stale(ASKED, written() + "# from http://index.example/simple\n")
    assert row == check.Stale(
        field="text", reason="it names an address; a lock holds pins and hashes alone"
    )


def test_a_line_that_is_no_pin_makes_a_lock_stale():
    (row,) = check.stale(ASKED, written() + "--pre\n")
    assert row.field == "text"
    assert "got '--pre'" in row.reason


# --- uv's reasons --------------------------------------------------------------------------------

CONFLICT = """\
error: No solution found when resolving dependencies
  cause: Because numba==0.61.2 depends on numpy>=1.24,<2.3 and you require numba==0.61.2, we can \
conclude that you require numpy>=1.24,<2.3.
         And because you require numpy>=2.3, we can conclude that your requirements are \
unsatisfiable.
"""
LATER = """\
error: No solution found when resolving dependencies
  cause: Because there is no version of vllm==0.17.0 and you require vllm==0.17.0, we can conclude \
that your requirements are unsatisfiable.

hint: `vllm` was filtered by `exclude-newer` to only include packages uploaded before \
2026-02-16T00:00:00Z. The requested version, v0.17.0, was published at 2026-03-07T03:54:02.312Z.
"""
UNDATED = """\
error: No solution found when resolving dependencies
  cause: Because there are no versions of six and you require six, we can conclude that your \
requirements are unsatisfiable.

hint: `six` was filtered by `exclude-newer` to only include packages uploaded before \
2026-02-16T00:00:00Z. The latest version satisfying the requirement is v2.
"""
NO_WHEEL = """\
error: No solution found when resolving dependencies
  cause: Because flash-attn==2.8.3 has no usable wheels and you require flash-attn==2.8.3, we can \
conclude that your requirements are unsatisfiable.

hint: Wheels are required for `flash-attn` because building from source is disabled
"""
AWAY = """\
error: Request failed after 3 retries in 4.5s
  cause: Failed to fetch: http://index.example/simple/numba/
  cause: Connection refused (os error 111)
"""


REASONS = {
    CONFLICT: (
        "x can't be locked: numba==0.61.2 depends on numpy>=1.24,<2.3 and you require "
        "numba==0.61.2; you require numpy>=2.3"
    ),
    LATER: "x can't be locked: there is no version of vllm==0.17.0 and you require vllm==0.17.0",
    UNDATED: "x can't be locked: there are no versions of six and you require six",
    NO_WHEEL: (
        "x can't be locked: flash-attn==2.8.3 has no usable wheels and you require "
        "flash-attn==2.8.3"
    ),
    AWAY: (
        "x: uv could not resolve it: Request failed after 3 retries in 4.5s: Failed to fetch: "
        "http://index.example/simple/numba/: Connection refused (os error 111)"
    ),
}
HINTS = {
    CONFLICT: "change one of the requirements; what can't share an environment gets one of its own",
    LATER: (
        "version 0.17.0 was published on 2026-03-07, and the stack reads the index as of "
        "2026-02-15: move its `date`"
    ),
    UNDATED: (
        "all its versions are from after 2026-02-15, the stack's `date`; "
        "or the index, a mirror, tells no upload times (PEP 700)"
    ),
    NO_WHEEL: "nothing is built for a lock: what has no wheel stands in the stack's `wheels`",
    AWAY: "the package index must be reachable; uv's own settings name it",
}


@pytest.mark.parametrize("said", REASONS, ids=["conflict", "later", "undated", "no wheel", "away"])
def test_uv_s_reason_without_its_conclusions(said):
    error = reasons.refusal("x", ASKED, said)
    assert (error.what, error.hint) == (REASONS[said], HINTS[said])


def test_of_a_long_reason_the_first_and_the_last_steps_are_shown():
    steps = [f"And because a{n} depends on b{n}, we can conclude that c{n}." for n in range(9)]
    said = f"error: No solution found\n  cause: Because {' '.join(steps).removeprefix('And b')}"
    error = reasons.refusal("x", ASKED, said)
    assert error.what.count(" depends on ") == 5
    assert "a2 depends on b2; …; a7 depends on b7; a8 depends on b8" in error.what
