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


def test_apt_s_refusal_repeats_no_password():
    text = "E: Failed to fetch https://user:secret@deb.example/Packages  401  Unauthorized\n"
    assert apt.parse_error(text).startswith("Failed to fetch https://…@deb.example/Packages ")


ALLOWED = {"install": {"a": [None, "1"], "b": ["1", "2"]}, "remove": {"old": "1"}}


def simulated(monkeypatch, *said):
    """apt's answer, asked of a host that says these one after the other."""
    answers, asked = list(said), []

    def run(argv, *, timeout):
        asked.append(argv[1])
        return answers.pop(0)

    monkeypatch.setattr(apt, "run", run)
    answer = apt.simulate(["apt-get", "install", "driver"])
    assert asked == ["--simulate", "--print-uris"][: len(said)]
    return answer


def test_apt_is_asked_what_it_would_do_and_what_room_it_takes(monkeypatch):
    does = capture("apt-simulate-all-kinds.txt")
    takes = capture("apt-print-uris.txt")
    said = simulated(monkeypatch, Output(0, does, ""), Output(0, takes, ""))
    assert (said["error"], said["hint"]) == (None, "")
    assert said["remove"] == {"driver-legacy": "340-1"}
    assert (said["download"], said["installs"]) == (1134, 3_072_000_000)


def test_apt_that_does_not_say_what_room_it_takes_is_not_trusted(monkeypatch):
    said = simulated(monkeypatch, Output(0, "", ""), Output(0, "", ""))
    assert said["error"] == "it does not say how much room it takes"


WILL_USE = "of additional disk space will be used."
FREED = "disk space will be freed."


@pytest.mark.parametrize(
    ("need", "after", "download", "installs"),
    [
        ("568 B of", f"0 B {WILL_USE}", 568, 0),
        ("3002 kB of", f"65.5 kB {WILL_USE}", 3_002_000, 65_500),
        ("0 B/568 B of", f"3072 MB {WILL_USE}", 0, 3_072_000_000),
        ("1.5 GB/3.1 GB of", f"7.2 GB {WILL_USE}", 1_500_000_000, 7_200_000_000),
        ("12.3 MB/3.1 GB of", f"1.1 TB {WILL_USE}", 12_300_000, 1_100_000_000_000),
        (None, f"3072 MB {FREED}", 0, -3_072_000_000),
        (None, f"0 B {WILL_USE}", 0, 0),
    ],
)
def test_sizes_as_apt_prints_them(need, after, download, installs):
    lines = [f"Need to get {need} archives."] if need else []
    text = "\n".join([*lines, f"After this operation, {after}", ""])
    assert apt.parse_room(text) == {"download": download, "installs": installs}


@pytest.mark.parametrize("text", ["", "Need to get 568 B of archives.\n", "rubbish\n"])
def test_without_sizes_nothing_is_claimed(text):
    assert apt.parse_room(text) is None


def test_a_refusal_that_is_known_comes_with_its_cause_and_what_to_do(monkeypatch):
    """apt prints the unmet dependencies on stdout."""
    out, mark, err = capture("apt/unmet.trixie.txt").partition("E: ")
    said = simulated(monkeypatch, Output(100, out, mark + err))
    assert "lab-nowhere (>= 2)" in said["error"]
    assert "apt-mark showhold" in said["hint"]


def test_a_refusal_that_is_not_known_is_told_in_apt_s_words(monkeypatch):
    said = simulated(monkeypatch, Output(100, "", "E: Unable to locate package broken\n"))
    assert (said["error"], said["hint"]) == ("Unable to locate package broken", "")
    assert (said["download"], said["installs"]) == (0, 0)


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
