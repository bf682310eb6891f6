"""What apt says it would do, and what of that goes beyond a plan."""

import pytest
from samples import capture

from provision.remote import apt
from provision.remote.command import Output


def test_apt_tells_installations_upgrades_downgrades_and_removals():
    assert apt.parse(capture("apt-simulate-all-kinds.txt")) == {
        "install": {
            "driver": [None, "590-1"],
            "driver-library": ["550-1", "590-1"],
            "module": ["595-1", "580-1"],
            "toolkit": [None, "13.1-1"],
        },
        "remove": {"driver-legacy": "340-1"},
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Purg old [1.0]", {"install": {}, "remove": {"old": "1.0"}}),
        ("Remv old:i386 [1.0] [a:amd64 ]", {"install": {}, "remove": {"old:i386": "1.0"}}),
        (
            "Inst a:i386 (1:2.0-1 x [i386])",
            {"install": {"a:i386": [None, "1:2.0-1"]}, "remove": {}},
        ),
        ("Inst a [1] (2 x [amd64]) [b:amd64 ]", {"install": {"a": ["1", "2"]}, "remove": {}}),
        ("Inst a (2 x:1/stable, y:1 [amd64])", {"install": {"a": [None, "2"]}, "remove": {}}),
        ("Conf a (2 x [amd64])", {"install": {}, "remove": {}}),
        ("  Inst a (2 x [amd64])", {"install": {}, "remove": {}}),
        ("", {"install": {}, "remove": {}}),
    ],
)
def test_a_line_of_apt_s_simulation(line, expected):
    assert apt.parse(line) == expected


HELD = "Unable to correct problems, you have held broken packages."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            capture("apt-simulate-unmet-dependency.stderr.txt"),
            HELD,
        ),
        ("E: one\nW: two\nE: three\n", "one; three"),
        ("W: only a warning\n", "W: only a warning"),
        ("", "apt gave no reason"),
    ],
)
def test_apt_s_refusal_in_one_line(text, expected):
    assert apt.parse_error(text) == expected


ALLOWED = {"install": {"a": [None, "1"], "b": ["1", "2"]}, "remove": {"old": "1"}}


def simulated(monkeypatch, out, err):
    monkeypatch.setattr(apt, "run", lambda argv, *, timeout: Output(100, out, err))
    return apt.simulate(["apt-get", "install", "broken"])


def test_a_refusal_that_is_known_comes_with_its_cause_and_what_to_do(monkeypatch):
    """apt prints the unmet dependencies on stdout."""
    out, mark, err = capture("apt/unmet.trixie.txt").partition("E: ")
    said = simulated(monkeypatch, out, mark + err)
    assert "lab-nowhere (>= 2)" in said["error"]
    assert "apt-mark showhold" in said["hint"]


def test_a_refusal_that_is_not_known_is_told_in_apt_s_words(monkeypatch):
    said = simulated(monkeypatch, "Reading\n", "E: Unable to locate package broken\n")
    assert (said["error"], said["hint"]) == ("Unable to locate package broken", "")


@pytest.mark.parametrize(
    ("install", "remove", "expected"),
    [
        ({"a": [None, "1"], "b": ["1", "2"]}, {"old": "1"}, []),
        ({"a": [None, "1"]}, {}, []),
        ({}, {}, []),
        ({"a": [None, "2"]}, {}, ["installs a 2"]),
        ({"c": [None, "1"]}, {}, ["installs c 1"]),
        ({}, {"a": "1"}, ["removes a 1"]),
        ({"c": [None, "3"]}, {"d": "4"}, ["installs c 3", "removes d 4"]),
    ],
)
def test_what_goes_beyond_the_plan(install, remove, expected):
    assert apt.beyond({"install": install, "remove": remove}, ALLOWED) == expected
