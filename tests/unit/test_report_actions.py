"""A plan's actions as people see them: the commands and files that they are."""

import pytest

from provision.plan import (
    Apt,
    Disable,
    Discard,
    Feed,
    Index,
    Intact,
    Keep,
    Keyring,
    Place,
    Python,
    Reboot,
    Remove,
    Run,
    Seal,
    Switch,
    Unpack,
    Write,
)
from provision.report.actions import action_lines

LINES = {
    "a file": (
        Write(path="/etc/a", content="é\n", mode=0o640),
        ["write /etc/a (3 bytes, mode 0640)"],
    ),
    "a command": (Run(argv=("a", "b"), env={"X": "1"}), ["$ a b"]),
    "a key": (
        Keyring(url="http://deb.example/k", sha256=None, fingerprint="F"),
        ["fetch http://deb.example/k", "  hold its key to F, install it"],
    ),
    "an index": (Index(argv=("apt-get", "update")), ["$ apt-get update"]),
    "apt before it was asked": (
        Apt(argv=("apt-get",)),
        ["$ apt-get", "  apt is asked when its round comes"],
    ),
    "apt that removes nothing": (
        Apt(argv=("apt-get",), install={"a": [None, "1"]}),
        ["$ apt-get", "  installs 1: a", "  removes nothing"],
    ),
    "apt with many packages": (
        Apt(argv=("apt-get",), install={f"p{n}": [None, "1"] for n in range(9)}),
        ["$ apt-get", "  installs 9: p0, p1, p2, p3, p4, p5, p6, p7, …", "  removes nothing"],
    ),
    "a file that goes": (Remove(path="/etc/a"), ["remove /etc/a"]),
    "a source that is switched off": (
        Disable(path="/etc/apt/a.list", uri="http://deb.example"),
        ["switch off http://deb.example in /etc/apt/a.list"],
    ),
    "an executable": (
        Unpack(wheel="0", member="m/uv", path="/opt/uv"),
        ["unpack m/uv of the uploaded wheel to /opt/uv"],
    ),
    "packages that are kept": (
        Keep(packages={"a": "1", "b": "1"}, folder="/k/1", forget=("/k/0",)),
        ["keep 2 packages in /k/1", "remove /k/0"],
    ),
    "wheels for a host without an index": (
        Feed(lock="a" * 64, python="3.11.2", folder="/feed"),
        ["put the uploaded wheels of lock aaaaaaaaaaaa into /feed"],
    ),
    "a wheel of our own": (
        Place(sha256="0", path="/w/a-1-py3-none-any.whl"),
        ["put the uploaded a-1-py3-none-any.whl to /w/a-1-py3-none-any.whl"],
    ),
    "a Python of uv's": (
        Python(argv=("uv", "python", "install", "3.13")),
        ["$ uv python install 3.13"],
    ),
    "a seal": (
        Seal(release="/r", lock="0", python="3", versions={}),
        ["hold /r to lock, RECORD and GPUs, then seal it"],
    ),
    "a release before it is gone back to": (
        Intact(release="/r"),
        ["hold /r to what it was when it was sealed"],
    ),
    "releases that go": (
        Discard(releases=("/r1", "/r2"), beside=("/feed/0",)),
        ["remove /r1", "remove /r2", "remove /feed/0"],
    ),
    "a link": (Switch(link="/c", target="r/1"), ["point /c to r/1"]),
    "a reboot": (Reboot(), ["$ systemctl reboot"]),
}


@pytest.mark.parametrize("case", LINES, ids=LINES)
def test_an_action_in_lines(case):
    action, lines = LINES[case]
    assert action_lines(action, whole=False) == lines


@pytest.mark.parametrize(
    ("action", "last"),
    [
        (Write(path="/etc/a", content="one\ntwo\n"), ["  one", "  two"]),
        (Run(argv=("a",), env={"X": "1"}), ["$ X=1 a"]),
        (
            Apt(argv=("x",), install={f"p{n}": [None, "1"] for n in range(9)}),
            ["  installs 9: p0, p1, p2, p3, p4, p5, p6, p7, p8", "  removes nothing"],
        ),
    ],
)
def test_an_action_in_whole(action, last):
    assert action_lines(action, whole=True)[-len(last) :] == last
