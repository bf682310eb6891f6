"""What packages are installed, moved and removed, and what becomes of their marks."""

import pytest
from samples import DRIVER, KERNEL, WANT, apt_answer, installed, planned, raw, refused, seen

from provision import planner
from provision.plan import Apt, Stage
from provision.resources import apt_packages, driver, headers, toolkits
from provision.resources.known import NotKnown

# --- packages ----------------------------------------------------------------------------------


def transaction(facts, wanted):
    (change,) = apt_packages.packages_change(
        "r", Stage.PACKAGES, facts, subject="s", wanted=wanted, why="w"
    )
    (apt,) = change.actions
    assert isinstance(apt, Apt)
    return change, apt


NOT_THERE = {"dpkg": {"packages": {"gcc": None, "make": None}}}


@pytest.mark.parametrize(
    ("promise", "wanted", "words"),
    [
        (NOT_THERE, {"gcc": None, "make": None}, ["gcc", "make"]),
        (NOT_THERE, {"gcc": "4:12.2.0-3"}, ["gcc=4:12.2.0-3"]),
        (
            installed("gcc", "4:13"),
            {"gcc": "4:12.2.0-3"},
            ["--allow-downgrades", "gcc=4:12.2.0-3"],
        ),
        (
            installed("gcc", "4:11"),
            {"gcc": "4:12.2.0-3"},
            ["--allow-downgrades", "gcc=4:12.2.0-3"],
        ),
        (installed("gcc", "4:13", "config-files"), {"gcc": None}, ["gcc"]),
        (installed("gcc", "4:13", "half-configured"), {"gcc": None, "make": None}, ["gcc"]),
    ],
)
def test_downgrades_are_allowed_only_where_an_installed_version_moves(promise, wanted, words):
    _, apt = transaction(seen(promise), wanted)
    assert list(apt.argv[len(apt_packages.INSTALL) :]) == words


def test_apt_is_never_asked_for_recommended_packages_or_questions():
    _, apt = transaction(seen(NOT_THERE), {"gcc": None})
    assert {"--yes", "--no-install-recommends"} <= set(apt.argv)


def test_what_is_installed_at_its_version_is_left_alone():
    wanted = {"gcc": None, "nvidia-open": f"{DRIVER}-1"}
    assert (
        apt_packages.packages_change(
            "r", Stage.PACKAGES, seen(), subject="s", wanted=wanted, why="w"
        )
        == []
    )


def simulated(apt, **said):
    return {"simulations": {apt.key: apt_answer(**said)}}


def test_what_apt_would_remove_is_shown_and_promised():
    facts = seen(NOT_THERE)
    _, apt = transaction(facts, {"gcc": None})
    said = simulated(apt, install={"gcc": [None, "4:12.2.0-3"]}, remove={"old": "1"})
    change, apt = transaction(seen(NOT_THERE, said), {"gcc": None})
    assert (change.before, change.after) == ("gcc absent", "gcc 4:12.2.0-3")
    assert (apt.install, apt.remove) == ({"gcc": [None, "4:12.2.0-3"]}, {"old": "1"})
    assert change.makes["dpkg"]["packages"]["old"] is None


def test_before_apt_was_asked_nothing_is_claimed():
    change, apt = transaction(seen(NOT_THERE), {"gcc": None})
    assert (change.after, apt.install) == ("gcc ?", None)


def test_apt_s_refusal_is_told_in_its_words():
    _, apt = transaction(seen(NOT_THERE), {"gcc": None})
    said = simulated(apt, error="held broken packages", hint="apt-mark showhold")
    with pytest.raises(NotKnown, match="apt refuses: held broken packages") as caught:
        transaction(seen(NOT_THERE, said), {"gcc": None})
    assert (caught.value.subject, caught.value.hint) == ("gcc", "apt-mark showhold")


def test_an_exact_version_that_no_source_has():
    with pytest.raises(NotKnown, match="gcc 99 is not in any source's index") as caught:
        transaction(seen(NOT_THERE), {"gcc": "99"})
    assert caught.value.hint == "the sources offer 4:12.2.0-3"


def test_a_simulation_that_could_not_be_made_blocks():
    with pytest.raises(NotKnown, match="simulations: no answer"):
        transaction(
            seen(NOT_THERE, simulations={"status": "timeout", "reason": "no answer"}),
            {"gcc": None},
        )


# --- room ---------------------------------------------------------------------------------------

GIB = 2**30
OWN_VAR = {"disks": {"/var": {"device": 2}}}


def room(**gib):
    """So much room on / and /var."""
    mounts = {"root": "/", "var": "/var"}
    return {"disks": {mounts[name]: {"free": int(size * GIB)} for name, size in gib.items()}}


def takes(download, installs):
    """A transaction of so many GiB."""
    _, apt = transaction(seen(NOT_THERE), {"gcc": None})
    return simulated(apt, download=int(download * GIB), installs=int(installs * GIB))


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ([room(root=3.5)], takes(1, 2)),
        ([room(root=0.1)], takes(0, 0)),
        ([room(root=0.1)], takes(0, -3)),
        ([room(root=0.1)], takes(1, -3)),
        ([OWN_VAR, room(root=2.5, var=1.5)], takes(1, 2)),
        ([OWN_VAR, room(root=2.5, var=0.1)], takes(0, 2)),
        ([OWN_VAR, room(root=0.1, var=1.5)], takes(1, -2)),
    ],
)
def test_packages_that_fit(there, said):
    change, _ = transaction(seen(NOT_THERE, *there, said), {"gcc": None})
    assert not change.blocked


@pytest.mark.parametrize(
    ("there", "said", "reason"),
    [
        (
            [room(root=3.4)],
            takes(1, 2),
            (
                "/ has 3.4 GiB free, apt needs 3.5 GiB: "
                "1.0 GiB to download, 2.0 GiB to install, 0.5 GiB in reserve"
            ),
        ),
        (
            [OWN_VAR, room(root=2.4, var=9)],
            takes(1, 2),
            "/ has 2.4 GiB free, apt needs 2.5 GiB: 2.0 GiB to install, 0.5 GiB in reserve",
        ),
        (
            [OWN_VAR, room(root=9, var=1.4)],
            takes(1, 2),
            "/var has 1.4 GiB free, apt needs 1.5 GiB: 1.0 GiB to download, 0.5 GiB in reserve",
        ),
    ],
    ids=["one file system", "/ of its own", "/var of its own"],
)
def test_packages_that_do_not_fit(there, said, reason):
    with pytest.raises(NotKnown) as caught:
        transaction(seen(NOT_THERE, *there, said), {"gcc": None})
    assert str(caught.value) == reason
    assert caught.value.subject == reason.split()[0]
    assert f"make space on {caught.value.subject}" in caught.value.hint


def test_packages_that_are_unpacked_anew_must_fit_too():
    lacks = {"kernel": {"available": {KERNEL: None}}}
    (change,) = planned(driver, lacks)
    said = simulated(change.actions[0], download=GIB)
    assert "/ has 1.4 GiB free" in str(refused(driver, lacks, said, room(root=1.4)))


def test_room_that_is_unknown_is_never_taken_for_enough():
    with pytest.raises(NotKnown, match="disks: no answer"):
        transaction(
            seen(NOT_THERE, takes(1, 2), disks={"status": "timeout", "reason": "no answer"}),
            {"gcc": None},
        )


# --- toolkits, headers -------------------------------------------------------------------------


def test_a_toolkit_whose_files_are_gone_is_unpacked_anew():
    (change,) = planned(toolkits, {"toolkits": {"installed": {"12.8": None}}})
    assert change.actions[0].argv[: len(apt_packages.REINSTALL)] == apt_packages.REINSTALL
    names = change.actions[0].argv[len(apt_packages.REINSTALL) :]
    assert {"cuda-nvcc-12-8", "cuda-toolkit-12-8"} <= set(names)
    assert all(name.endswith("-12-8") for name in names)
    assert planned(toolkits, {"toolkits": {"installed": {"12.8": None}}}, change.makes) == []


def test_headers_are_wanted_for_the_running_kernel_and_the_next_one():
    (change,) = planned(headers, {"boot": {"next_kernel": "9.9"}})
    assert change.before == "linux-headers-9.9 absent"
    assert list(headers.expected(WANT, seen({"boot": {"next_kernel": None}}))) == [
        f"linux-headers-{KERNEL}"
    ]


def test_a_toolkit_that_came_as_a_dependency_is_marked_as_wanted():
    toolkit = installed("cuda-toolkit-13-1", "13.1.1-1", auto=True)
    (change,) = planned(toolkits, toolkit)
    assert [a.argv for a in change.actions] == [("apt-mark", "manual", "cuda-toolkit-13-1")]
    assert planned(toolkits, toolkit, change.makes) == []


@pytest.mark.parametrize("name", ["driver", "kernel", "boot", "pci", "dpkg", "apt", "os"])
def test_a_fact_that_is_unknown_blocks_and_never_breaks(name):
    unknown = {name: {"status": "timeout", "reason": "no answer within 30 s"}}
    plan = planner.plan("h", WANT, raw({"dpkg": {"packages": {"nvidia-open": None}}}, **unknown))
    blocked = [change.blocked for one in plan.rounds for change in one.changes if change.blocked]
    assert any("no answer within 30 s" in reason for reason in blocked)
