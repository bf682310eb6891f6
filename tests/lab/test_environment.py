"""Releases of an environment on a host: accidents, kills, going back, hosts without an index."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

import pytest

from provision import engine
from provision.remote import release
from provision.resources import environment, releases, uv
from provision.stack import Lock
from provision.target import Target
from tests.lab.command import wait_for
from tests.lab.trial import Trial

NAME = "r-env"
ROOT = f"{environment.ROOT}/main"
CURRENT = f"{ROOT}/current"
READERS = """
    nohup sh -c 'while [ ! -e /root/stop ]; do
        {python} -c "import numpy; numpy.zeros(1)" >> /root/read 2>&1 && echo fine >> /root/read
        sleep 0.1
    done' > /dev/null 2>&1 &
"""


class Host(Trial):
    """A trial whose environment is looked at from outside."""

    @property
    def current(self) -> str:
        """The name of the release that is current."""
        return (self.root / CURRENT[1:]).readlink().name

    def releases(self) -> dict[str, bool]:
        """All that lie there → whether each was sealed."""
        folder = self.root / ROOT[1:] / "releases"
        there = [path for path in sorted(folder.iterdir()) if path.is_dir()]
        return {path.name: (path / release.MANIFEST).exists() for path in there}

    def python(self, code: str) -> str:
        """What the current release's Python says."""
        return self.ask(f"{CURRENT}/bin/python -c '{code}' 2>&1 | tail -1")

    def usable(self) -> bool:
        """The current release is sealed, and its modules go together."""
        said = self.python('import numba, numpy; print("numpy", numpy.__version__)')
        return self.releases()[self.current] and said == "numpy 2.2.6"

    def touch(self) -> None:
        """A file of the current release is not what it was: another release is due."""
        self.mess(f"touch {CURRENT}/lib/python3*/site-packages/numba/__init__.py")

    def took(self, change: str) -> float:
        """Seconds on the host, of the last time that this was done."""
        done = [event for event in self.events() if event["event"] == "done"]
        return next(event["seconds"] for event in reversed(done) if event["id"] == change)

    def provisioned(self) -> str:
        """Provision to an end at which nothing is left to do; what was said."""
        code, said = self.run("provision")
        assert code == 0, said
        assert "nothing to do" in said
        return said


@pytest.fixture(scope="module")
def host(finished, tmp_path_factory):
    with Host(NAME, finished, tmp_path_factory.mktemp("env")) as one:
        yield one


@pytest.fixture(scope="module")
def uv_there(host):
    """The host's own uv, in the hand of whoever makes a mess."""
    return uv.path(host.target().want)


# --- an accident -------------------------------------------------------------------------------


def test_numpy_that_was_put_under_numba_is_named_and_mended_by_a_new_release(host, uv_there):
    first = host.current
    host.mess(f"{uv_there} pip install --python {CURRENT}/bin/python --no-deps 'numpy==2.4.*' 2>&1")
    assert "Numba needs NumPy 2.2 or less" in host.python("import numba")
    code, said = host.run("verify")
    assert code == 3
    assert "instead of 2.2.6 by uv (ImportError: Numba needs NumPy 2.2 or less. Got NumPy 2.4." in (
        said
    )
    assert "numba requires numpy<2.3,>=1.24" in said
    host.provisioned()
    assert host.current != first
    assert host.usable()
    assert first in host.releases(), "whoever still uses it is not disturbed"


def test_a_release_that_was_damaged_is_not_gone_back_to(host):
    before = host.current
    code, said = host.run("rollback")
    assert code == 1
    assert "no environment has an older release to go back to; changed since sealed" in said
    assert host.current == before


def test_pip_refuses_where_it_would_drift_from_the_lock(host):
    said = host.ask(f"{CURRENT}/bin/pip install six 2>&1; echo exit $?")
    assert said.endswith("exit 1")
    assert "nothing is installed beside its lock" in said
    assert host.usable()


# --- going back, while others read -------------------------------------------------------------


@pytest.fixture
def readers(host):
    """Somebody who imports through `current`, over and over: what that somebody saw."""
    host.mess(READERS.format(python=f"{CURRENT}/bin/python"))
    yield host.root / "root/read"
    host.mess("touch /root/stop")


def with_another_lock(there: Target) -> Target:
    """The same host, of whose lock another line is there: the same distributions, another name."""
    stack = there.want.stack
    locks = {name: Lock(text=f"{lock.text}# again\n") for name, lock in stack.locks.items()}
    want = dataclasses.replace(there.want, stack=stack.model_copy(update={"locks": locks}))
    return dataclasses.replace(there, want=want)


def seen_by(readers: Path, more: int) -> list[str]:
    """What readers have seen, once it is so much more."""

    def lines() -> list[str]:
        return readers.read_text().splitlines() if readers.exists() else []

    enough = len(lines()) + more
    wait_for(lambda: len(lines()) >= enough, "what readers see")
    return lines()


def test_a_host_goes_back_at_once_and_readers_never_see_half_an_environment(host, readers):
    good = host.current
    seen_by(readers, 2)
    there = with_another_lock(host.target())
    assert engine.provision(there, lambda _: None).plan.empty
    there.transport.close()
    other = host.current
    assert other != good
    seen_by(readers, 2)
    code, said = host.run("rollback")
    assert (code, host.current) == (0, good), said
    print(f"gone back in {host.took('environment:main')} s on the host")  # noqa: T201
    assert host.provisioned().count("~") == 0, "it is what the stack wants"
    seen_by(readers, 2)
    made = host.releases()
    there = with_another_lock(host.target())
    assert engine.provision(there, lambda _: None).plan.empty
    there.transport.close()
    assert (host.current, host.releases()) == (other, made), "it was there already"
    host.provisioned()
    assert (host.current, host.releases()) == (good, made)
    assert set(seen_by(readers, 2)) == {"fine"}


# --- kills -------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["pip install --python", "prove ", f"point {CURRENT}"])
def test_a_run_that_is_killed_leaves_a_release_that_works(host, moment):
    """While it builds, while it proves, at the switch."""
    host.touch()
    before, said_before = host.current, host.log().count(moment)
    command = host.start("provision")
    wait_for(lambda: host.log().count(moment) > said_before, moment)
    host.signal_run(signal.SIGKILL)
    code, said = command.end()
    assert code == 1, said
    at_switch = moment.startswith("point")
    assert host.current == before or at_switch
    assert host.usable()
    host.provisioned()
    assert host.usable()
    assert all(host.releases().values()), "nothing unfinished is left"
    # What goes after the switch goes with the next release.
    assert len(host.releases()) <= releases.KEPT + at_switch


# --- without an index --------------------------------------------------------------------------


@pytest.fixture
def without_an_index(host, uv_there):
    """No package index can be reached, and nothing of one is in uv's cache."""
    dead = '[[index]]\nurl = "http://127.0.0.1:9/simple"\ndefault = true\n'
    host.mess(f"""
        rm -rf /var/cache/firstlight/uv
        mkdir -p /etc/uv
        printf '{dead}' > /etc/uv/uv.toml
        ! UV_HTTP_RETRIES=0 {uv_there} pip install --dry-run --target /nowhere six
    """)
    file = host.folder / "inventory.yaml"
    before = file.read_text()
    file.write_text(before.replace("    stack:", "    site: {feed: true}\n    stack:"))
    yield
    file.write_text(before)
    host.mess("rm /etc/uv/uv.toml")


def test_a_host_that_reaches_no_index_is_fed_once(host, without_an_index):
    host.touch()
    before = host.current
    assert "uploading" in host.provisioned()
    assert (host.current != before, host.usable()) == (True, True)
    host.touch()
    assert "uploading" not in host.provisioned(), "what was uploaded is still there"
    assert host.usable()


# --- the driver --------------------------------------------------------------------------------

NEXT = "595.58.03"


def with_driver(there: Target, version: str) -> Target:
    system = there.want.stack.system
    driver = system.driver.model_copy(update={"version": version})
    moved = system.model_copy(update={"driver": driver})
    stack = there.want.stack.model_copy(update={"system": moved})
    return dataclasses.replace(there, want=dataclasses.replace(there.want, stack=stack))


FORGET = r"""
    for list in /var/lib/apt/lists/packages.lab.test*Packages; do
        awk -v RS= -v ORS='\n\n' '!/\nVersion: 590\.48\.01-1\n/' $list > /root/list
        cat /root/list > $list
    done
    ! apt-cache policy nvidia-open | grep -q 590.48.01-1
"""
"""The repository offers the driver before no more."""


def test_a_host_goes_back_to_a_driver_that_no_repository_offers_any_more(host):
    there = with_driver(host.target(), NEXT)
    seen = engine.provision(there, lambda _: None)
    there.transport.close()
    assert (seen.plan.empty, seen.facts.driver.loaded) == (True, NEXT)
    host.mess(FORGET)
    code, said = host.run("rollback", "--driver")
    assert code == 0, said
    assert "back to driver 590.48.01" in said
    seen = engine.look(host.target())
    assert (seen.plan.empty, seen.facts.driver.loaded) == (True, "590.48.01")
    assert "/var/lib/firstlight/kept/590.48.01-1/nvidia-open_590.48.01-1_" in host.log()
    packages = seen.facts.dpkg.packages
    assert {"cuda-toolkit-12-8", "cuda-toolkit-13-1", "cuda-keyring"} <= packages.keys()
    assert {version for files in seen.facts.kept.values() for version in files} == {
        "590.48.01-1",
        f"{NEXT}-1",
    }
