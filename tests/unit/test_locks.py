"""Who holds a lock of apt's or dpkg's, and what an action does about it."""

import contextlib
import fcntl
import subprocess
import sys

import pytest
from samples import capture

from provision.remote import actions, locks
from provision.remote.actions import ActionFailed

HOLD = """\
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held(path):
    """Another process holds the file's lock as long as the block runs."""
    argv = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        yield other
        other.stdin.close()


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    return path


def test_the_holder_of_a_lock_is_named(lock):
    with held(lock) as other:
        holder = locks.holder(lock)
        assert holder
        assert holder.pid == other.pid
        assert str(holder) == f"{holder.name} (pid {other.pid})"
        assert holder.name.startswith("python")
    assert locks.holder(lock) is None


def test_looking_does_not_take_the_lock(lock):
    assert locks.holder(lock) is None
    with held(lock):
        pass


@pytest.mark.parametrize("name", ["none", "no/such/folder"])
def test_a_lock_that_nobody_ever_took(tmp_path, name):
    assert locks.holder(tmp_path / name) is None


def test_a_holder_that_can_t_be_seen_is_a_process():
    assert locks._name(0) == "a process"


APT = locks.Holder(4711, "apt-get")
UPGRADES = locks.Holder(4712, "unattended-upgr")


@pytest.fixture
def seen(monkeypatch):
    """Makes a lock that shows these holders, one at each look; then the last for ever."""

    def make(*holders):
        rest = list(holders)
        look = lambda path: rest.pop(0) if len(rest) > 1 else rest[0]  # noqa: E731
        monkeypatch.setattr(locks, "holder", look)
        monkeypatch.setattr(locks.time, "sleep", lambda seconds: None)

    return make


def test_each_holder_is_told_once(seen):
    seen(APT, APT, APT, UPGRADES, UPGRADES, None)
    said = []
    assert locks.await_free(locks.FRONTEND, said.append, 60.0) is None
    assert said == [
        "waiting for /var/lib/dpkg/lock-frontend: held by apt-get (pid 4711)",
        "waiting for /var/lib/dpkg/lock-frontend: held by unattended-upgr (pid 4712)",
    ]


def test_a_free_lock_is_not_spoken_of(seen):
    seen(None)
    said = []
    assert locks.await_free(locks.LISTS, said.append, 60.0) is None
    assert said == []


def test_who_does_not_let_go_is_given_back(seen):
    seen(APT)
    assert locks.await_free(locks.LISTS, lambda reason: None, 0.0) == APT


# --- actions ------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Carries out one action; gives the commands, and what was waited for, in their order."""
    done = []
    monkeypatch.setattr(actions.Context, "run", lambda self, argv, **options: done.append(argv[0]))
    nothing = {"install": {}, "remove": {}}
    monkeypatch.setattr(actions.apt, "simulate", lambda argv: {**nothing, "error": None})
    with (tmp_path / "log").open("ab") as log:
        context = actions.Context(
            folder=tmp_path, log=log, allowed=nothing, waiting=lambda reason: done.append(reason)
        )
        yield lambda **action: actions.carry_out(action, context) or done


DPKG = {
    "do": "run",
    "argv": ["dpkg", "--configure", "-a"],
    "timeout": 9.0,
    "env": {},
    "accepts": [0],
}
INSTALL = {"do": "apt", "argv": ["apt-get", "install", "a"]}
UPDATE = {"do": "index", "argv": ["apt-get", "update"]}


@pytest.mark.parametrize(
    ("action", "path"),
    [(DPKG, locks.FRONTEND), (INSTALL, locks.FRONTEND), (UPDATE, locks.LISTS)],
    ids=["dpkg", "install", "update"],
)
def test_a_lock_is_waited_for_before_the_command(run, seen, action, path):
    seen(APT, None)
    assert run(**action) == [
        f"waiting for {path}: held by apt-get (pid 4711)",
        action["argv"][0],
    ]


@pytest.mark.parametrize("action", [DPKG, INSTALL, UPDATE], ids=["dpkg", "install", "update"])
def test_a_lock_that_is_never_free_fails_the_change_and_names_its_holder(
    run, seen, monkeypatch, action
):
    monkeypatch.setattr(actions, "LOCK_PATIENCE", 0.0)
    seen(APT)
    with pytest.raises(ActionFailed, match=r"is still held by apt-get \(pid 4711\)") as caught:
        run(**action)
    assert "let that program end" in caught.value.hint


def test_other_commands_wait_for_nothing(run, seen):
    seen(APT)
    assert run(**{**DPKG, "argv": ["systemctl", "daemon-reexec"]}) == ["systemctl"]


def test_packages_are_installed_when_nobody_fetches_any(run, monkeypatch):
    monkeypatch.setattr(locks.time, "sleep", lambda seconds: None)
    left = [APT]
    busy = lambda path: left.pop() if path == locks.ARCHIVES and left else None  # noqa: E731
    monkeypatch.setattr(locks, "holder", busy)
    assert run(**INSTALL) == [
        "waiting for /var/cache/apt/archives/lock: held by apt-get (pid 4711)",
        "apt-get",
    ]


# --- the index ----------------------------------------------------------------------------------


LOST = capture("apt/lock-lists.bookworm.txt")
TAMPERED = capture("apt/bad-signature.bookworm.txt")


@pytest.fixture
def update(tmp_path, seen):
    """Carries out an index fetch by a script, which says what it is told at each of its runs."""
    seen(None)

    def carry_out(*said):
        for number, text in enumerate(said):
            (tmp_path / str(number)).write_text(text)
        runs = tmp_path / "runs"
        script = (
            f"n=$(cat {runs} 2>/dev/null || echo 0); echo $((n + 1)) > {runs}; "
            f"cat {tmp_path}/$n; ! [ -s {tmp_path}/$n ]"
        )
        with (tmp_path / "log").open("ab") as log:
            allowed = {"install": {}, "remove": {}}
            context = actions.Context(
                folder=tmp_path, log=log, allowed=allowed, waiting=lambda reason: None
            )
            actions.carry_out({"do": "index", "argv": ["sh", "-c", script]}, context)
        return int(runs.read_text())

    return carry_out


def test_a_lost_race_for_the_index_is_run_again(update):
    assert update(LOST, LOST, "") == 3


def test_another_failure_of_the_index_is_not(update, tmp_path):
    with pytest.raises(ActionFailed, match="was changed after it was signed"):
        update(LOST, TAMPERED, "")
    assert (tmp_path / "runs").read_text() == "2\n"


def test_a_race_that_is_lost_for_ever_fails_and_names_the_winner(update, monkeypatch):
    monkeypatch.setattr(actions, "LOCK_PATIENCE", -1.0)
    with pytest.raises(ActionFailed, match=r"lists/lock is held by python3 \(pid 2270\)"):
        update(LOST)


def test_the_locks_are_of_the_kind_that_apt_takes(lock):
    """A lock of flock(2), which another file of this process may hold, is none of them."""
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert locks.holder(lock) is None
