"""What would fail later, said before anything changes: for each rule right, wrong and unknown."""

import dataclasses

import pytest
from samples import ABSENT, TIMEOUT, WANT, planned, raw

from provision import planner, stack
from provision.inventory import Site
from provision.resources import preflight

OWN = dataclasses.replace(WANT, repository=None)
"""Without a repository of the inventory's: the stack's own count."""
OTHER = dataclasses.replace(WANT, stack=stack.load("lab-cuda131"))
"""A stack without CUDA 12.8."""
MANAGED = WANT.stack.environment["main"].model_copy(update={"interpreter": "managed"})
FED = dataclasses.replace(
    WANT,
    stack=WANT.stack.model_copy(update={"environment": {"main": MANAGED}}),
    site=Site(feed=True),
)
UBUNTU = {"os": {"id": "ubuntu", "version_id": "24.04", "name": "Ubuntu 24.04.3 LTS"}}
GIB = 2**30


def secure_boot(enabled, enrolled):
    return {"secure_boot": {"enabled": enabled, "enrolled": enrolled}}


def space(gib, *, lacking=True):
    """So much room, and a toolkit that is still to be installed."""
    there = {"disks": {"/": {"free": int(gib * GIB)}}}
    return {**there, "dpkg": {"packages": {"cuda-toolkit-13-1": None}}} if lacking else there


def mounted(mount, gib):
    """A file system of its own with so much room, and a toolkit that is still to be installed."""
    own = {"disks": {mount: {"free": int(gib * GIB), "device": 2}}}
    return {**own, "dpkg": {"packages": {"cuda-toolkit-13-1": None}}}


RIGHT = {
    "Debian 12": (WANT, {}),
    "Ubuntu 24.04 with the stack's own repository": (OWN, UBUNTU),
    "another machine with a repository of its own": (WANT, {"os": {"arch": "aarch64"}}),
    "the last glibc that works": (WANT, {"os": {"libc": "glibc 2.40"}}),
    "a newer glibc without the toolkit": (OTHER, {"os": {"libc": "glibc 2.41"}}),
    "the newest gcc that works": (WANT, {"compilers": {"gcc": "14.2.0"}}),
    "no gcc yet": (WANT, {"compilers": {"gcc": None}}),
    "Secure Boot switched off": (WANT, secure_boot(enabled=False, enrolled=None)),
    "Secure Boot with an enrolled key": (WANT, secure_boot(enabled=True, enrolled=True)),
    "just enough room": (WANT, space(20)),
    "just enough room on a /var of its own": (WANT, mounted("/var", 6)),
    "just enough room on a /boot of its own": (WANT, mounted("/boot", 0.25)),
    "little room with nothing to install": (WANT, space(1, lacking=False)),
}


@pytest.mark.parametrize("case", RIGHT, ids=RIGHT)
def test_a_host_on_which_it_can_work(case):
    want, promise = RIGHT[case]
    assert planned(preflight, promise, want=want) == []


WRONG = {
    "a distribution without a repository": (
        OWN,
        {"os": {"version_id": "9", "name": "Debian 9"}},
        ("debian9", "stack lab knows no repository for Debian 9 (debian9)"),
        "it knows debian12, debian13, ubuntu2204, ubuntu2404",
    ),
    "a distribution without driver packages": (
        WANT,
        {"os": {"id": "plan9", "name": "Plan 9"}},
        ("plan9", "stack lab knows no driver packages for Plan 9"),
        "",
    ),
    "another machine": (
        OWN,
        {"os": {"arch": "aarch64"}},
        ("aarch64", "the stack's repository is for x86_64, this host is aarch64"),
        "name a repository for it in the inventory",
    ),
    "no systemd": (
        WANT,
        {"os": {"systemd": False}},
        ("systemd", "no systemd is running here"),
        "a container is provisioned from the host",
    ),
    "a glibc that nvcc can't read": (
        WANT,
        {"os": {"libc": "glibc 2.41"}},
        ("CUDA 12.8", "a glibc below 2.41, the host has glibc 2.41"),
        "choose a stack without CUDA 12.8",
    ),
    "a later glibc": (
        WANT,
        {"os": {"libc": "glibc 2.100"}},
        ("CUDA 12.8", "glibc 2.100"),
        "a glibc below 2.41",
    ),
    "a gcc that nvcc does not take": (
        WANT,
        {"compilers": {"gcc": "15.1.0"}},
        ("CUDA 12.8", "nvcc 12.8 takes gcc up to 14, the host's is gcc 15.1.0"),
        "make gcc-14 its gcc",
    ),
    "a Python that the lock is not for": (
        WANT,
        {"os": {"python": {"version": "3.10.4"}}},
        ("environment main", "/usr/bin/python3 is 3.10.4"),
        "invoke lock --stack lab",
    ),
    "a later Python": (
        WANT,
        {"os": {"python": {"version": "3.14.0"}}},
        ("environment main", "/usr/bin/python3 is 3.14.0"),
        "choose another distribution",
    ),
    "a Python that a fed host can't fetch": (
        FED,
        {},
        ("environment main", "uv is to fetch Python 3.13: this host is fed"),
        'interpreter = "system"',
    ),
    "a driver of a .run file": (
        WANT,
        {"driver": {"runfile": "/usr/bin/nvidia-uninstall"}},
        ("driver", "installed from a .run file: /usr/bin/nvidia-uninstall is there"),
        "/usr/bin/nvidia-uninstall --silent",
    ),
    "Secure Boot and a key that is not enrolled": (
        WANT,
        secure_boot(enabled=True, enrolled=False),
        ("secure boot", "the key that DKMS signs with is not enrolled"),
        "mokutil --import",
    ),
    "Secure Boot and no key yet": (
        WANT,
        secure_boot(enabled=True, enrolled=None),
        ("secure boot", "the key that DKMS signs with can't be found"),
        "switch Secure Boot off",
    ),
    "too little room": (
        WANT,
        space(19.5),
        ("/", "/ has 19.5 GiB free, 20 GiB are needed"),
        "apt-get clean",
    ),
    "too little room on a /var of its own": (
        WANT,
        mounted("/var", 5.9),
        ("/var", "/var has 5.9 GiB free, 6 GiB are needed"),
        "apt-get clean",
    ),
    "too little room on a /boot of its own": (
        WANT,
        mounted("/boot", 0.2),
        ("/boot", "/boot has 0.2 GiB free, 0.25 GiB are needed"),
        "old kernels",
    ),
}


@pytest.mark.parametrize("case", WRONG, ids=WRONG)
def test_a_host_on_which_it_can_t_work(case):
    want, promise, (subject, reason), hint = WRONG[case]
    (change,) = planned(preflight, promise, want=want)
    assert change.subject == subject
    assert reason in change.blocked
    assert hint in change.hint
    assert (change.actions, change.makes) == ((), {})


@pytest.mark.parametrize("case", WRONG, ids=WRONG)
def test_nothing_is_done_on_such_a_host(case):
    want, promise, (subject, _), _ = WRONG[case]
    plan = planner.plan("h", want, raw(promise))
    assert not plan.now.actionable
    assert f"preflight:{subject}" in [change.id for change in plan.now.blocked]
    assert len(plan.rounds) == 1


def test_everything_that_is_wrong_is_said_at_once():
    promise = {"os": {"systemd": False, "libc": "glibc 2.41"}}, secure_boot(True, None), space(1)
    subjects = [change.subject for change in planned(preflight, *promise)]
    assert subjects == ["systemd", "CUDA 12.8", "secure boot", "/"]


def test_one_file_system_is_said_to_be_too_small_once():
    full = {"disks": {mount: {"free": 0} for mount in ("/", "/var", "/boot")}}
    subjects = [change.subject for change in planned(preflight, space(1), full)]
    assert subjects == ["/"]


@pytest.mark.parametrize("name", ["os", "compilers", "driver", "secure_boot"])
def test_what_is_unknown_is_never_taken_for_right(name):
    blocked = [change.blocked for change in planned(preflight, **{name: TIMEOUT})]
    assert blocked == [f"{name}: {TIMEOUT['reason']}"]


@pytest.mark.parametrize("name", ["dpkg", "disks"])
def test_room_that_is_unknown_is_never_taken_for_enough(name):
    blocked = [change.blocked for change in planned(preflight, space(100), **{name: TIMEOUT})]
    assert blocked == [f"{name}: {TIMEOUT['reason']}"]


def test_a_host_without_firmware_variables_has_no_secure_boot():
    assert planned(preflight, secure_boot=ABSENT) == []


def test_what_is_unknown_does_not_hide_what_is_wrong():
    plan = planner.plan("h", WANT, raw({"os": {"systemd": False}}, secure_boot=TIMEOUT))
    subjects = {c.subject for c in plan.now.blocked if c.resource == "preflight"}
    assert {"systemd", "secure_boot"} <= subjects


# --- room for releases -------------------------------------------------------------------------

SIZED = WANT.stack.model_copy(
    update={
        "environment": {
            "main": WANT.stack.environment["main"].model_copy(update={"space_gib": 9.4})
        }
    }
)
ROOMY = dataclasses.replace(WANT, stack=SIZED)
NONE = {"environments": {"main": None}}


def main(**fields):
    return {"environments": {"main": fields}}


def sized(gib, **fields):
    """The current release has such a size."""
    return main(sizes={"cab0508cf67a-1": int(gib * GIB)}, **fields)


CUT = main(release=None, lock=None, releases={"cab0508cf67a-1": None})
FULL = "/ has {free:.1f} GiB free, {need} GiB are needed: {what}"
FIRST = "9.4 for a release of environment main, 9.4 for uv's cache of main"
RELEASE = "{0} for a release of environment main"


@pytest.mark.parametrize(
    ("promise", "free", "need", "what"),
    [
        (NONE, 18.7, "18.8", FIRST),
        (sized(3, lock="0" * 64), 9.3, "9.4", RELEASE.format(9.4)),
        (sized(3, intact=False), 2.9, "3", RELEASE.format(3)),
    ],
    ids=["a first one", "of another lock", "of the same lock"],
)
def test_a_release_needs_room(promise, free, need, what):
    there = space(free, lacking=False)
    (change,) = planned(preflight, promise, there, want=ROOMY)
    assert change.blocked == FULL.format(free=free, need=need, what=what)
    assert planned(preflight, promise, space(free + 0.2, lacking=False), want=ROOMY) == []


def test_where_no_figure_is_known_the_current_release_says_how_much():
    (change,) = planned(preflight, sized(3, lock="0" * 64), space(2.9, lacking=False))
    assert "3 for a release" in change.blocked
    assert planned(preflight, NONE, space(0, lacking=False)) == []


def test_packages_and_releases_need_room_together():
    (change,) = planned(preflight, NONE, space(38.7), want=ROOMY)
    assert change.blocked.endswith(f"38.8 GiB are needed: 20 for packages, {FIRST}")
    assert planned(preflight, NONE, space(38.9), want=ROOMY) == []


def test_on_file_systems_of_their_own_each_has_its_part():
    own = {"disks": {"/var": {"free": GIB, "device": 2}, "/opt": {"free": GIB, "device": 3}}}
    said = [change.blocked for change in planned(preflight, NONE, own, want=ROOMY)]
    assert said == [
        "/opt has 1.0 GiB free, 9.4 GiB are needed: 9.4 for a release of environment main",
        "/var has 1.0 GiB free, 9.4 GiB are needed: 9.4 for uv's cache of main",
    ]


@pytest.mark.parametrize(
    "promise", [{}, CUT], ids=["none is to be made", "one was cut off, which has taken some"]
)
def test_a_full_disk_is_no_matter_where_no_release_is_to_be_made_anew(promise):
    assert planned(preflight, promise, space(0, lacking=False), want=ROOMY) == []


def test_one_that_is_there_already_needs_no_room():
    sealed = {"lock": "0" * 64, "wheels": {}, "python": "3.11.2", "intact": True}
    right = raw()["facts"]["environments"]["value"]["main"]["lock"]
    beside = {"older": {"old-1": {**sealed, "lock": right}}, "releases": {"old-1": "2026"}}
    there = sized(3, lock="0" * 64, **beside)
    assert planned(preflight, there, space(0, lacking=False), want=ROOMY) == []


def test_environments_that_are_unknown_are_not_said_here():
    full = space(0, lacking=False)
    assert planned(preflight, full, want=ROOMY, environments=TIMEOUT) == []
