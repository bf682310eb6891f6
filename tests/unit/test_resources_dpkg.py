"""Packages that a killed dpkg left in part: configured, and made whole."""

import pytest
from samples import apt_answer, installed, planned, refused, seen

from provision.plan import Apt, Remove, Run, Stage, Write
from provision.resources import apt_packages, dpkg, unfinished

UNPACKED = installed("libfoo", "1.0", "unpacked")
TORN = installed("libbar", "2.0", "half-installed", reinstreq=True)
FLAGGED = installed("libbaz", "3.0", reinstreq=True)
HALF = installed("libqux", "4.0", "unpacked", reinstreq=True)
"""As a kill leaves it between the last file and the end of the unpacking."""
WAITS = installed("gcc", "1", "half-configured")


@pytest.mark.parametrize("promise", [UNPACKED, TORN, FLAGGED])
def test_what_depends_on_a_package_that_was_cut_short_may_fail_to_be_configured(promise):
    interrupted = {"dpkg": {"interrupted": True}}
    (change,) = planned(dpkg, interrupted, promise, WAITS)
    assert change.actions[0].accepts == (0, 1)
    # apt does the rest: here it would be the same change for ever.
    assert planned(dpkg, interrupted, promise, WAITS, change.makes) == []


@pytest.mark.parametrize(
    ("promises", "options"),
    [
        ([UNPACKED], ("--fix-broken",)),
        ([TORN], ("--fix-broken", "--reinstall", "libbar")),
        ([HALF], ("--fix-broken", "--reinstall", "libqux")),
        (
            [UNPACKED, TORN, FLAGGED, WAITS],
            ("--fix-broken", "--reinstall", "libbar", "libbaz"),
        ),
    ],
)
def test_packages_that_were_cut_short_are_made_whole(promises, options):
    (change,) = planned(unfinished, *promises)
    assert change.actions == (Apt(argv=(*apt_packages.INSTALL, *options)),)
    assert change.stage < Stage.PACKAGES
    assert planned(unfinished, *promises, change.makes) == []
    assert planned(dpkg, *promises, change.makes) == []


def note(name):
    return f"{apt_packages.HELD}/{name}"


def test_what_is_held_of_them_and_of_what_comes_along_is_held_again():
    """Which of the others are held, apt has said by then."""
    torn = installed("libbar", "2.0", "half-installed", reinstreq=True, hold=True)
    there = [torn, installed("libqux", "1", hold=True), WAITS]
    (change,) = planned(unfinished, *there)
    option = "--allow-change-held-packages"
    apt = Apt(argv=(*apt_packages.INSTALL, "--fix-broken", option, "--reinstall", "libbar"))
    again = Run(argv=("apt-mark", "hold", "libbar"))
    assert change.actions == (
        *(Write(path=note("libbar"), content=""), apt, again),
        Remove(path=note("libbar")),
    )
    moved = apt_answer(install={"libbar": ["2.0", "2.0"], "libqux": ["1", "2"], "gcc": ["1", "2"]})
    (change,) = planned(unfinished, *there, {"simulations": {apt.key: moved}})
    *_, again, one, two = change.actions
    assert again.argv[2:] == ("libbar", "libqux")
    assert [one.path, two.path] == [note("libbar"), note("libqux")]
    assert planned(unfinished, *there, change.makes) == []


def test_what_making_them_whole_installs_and_removes_is_promised():
    (change,) = planned(unfinished, TORN)
    said = {
        "simulations": {
            change.actions[0].key: apt_answer(
                install={"libbar": ["2.0", "2.1"], "libqux": [None, "1"]}, remove={"gcc": "1"}
            )
        }
    }
    (change,) = planned(unfinished, TORN, said)
    assert (change.before, change.after) == ("libbar half-installed", "libbar 2.1")
    packages = seen(TORN, change.makes).dpkg.packages
    assert packages["libbar"].version == "2.1"
    assert packages["gcc"] is None


def test_apt_s_refusal_to_make_them_whole_is_told():
    (change,) = planned(unfinished, TORN)
    said = {"simulations": {change.actions[0].key: apt_answer(error="no source", hint="give up")}}
    refusal = refused(unfinished, TORN, said)
    assert (str(refusal), refusal.hint) == ("apt refuses: no source", "give up")
