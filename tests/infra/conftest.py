"""A host as the tests see it: probed once over one login, whatever many tests ask.

A lab host that is down is booted and provisioned first; other hosts are only looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import pytest
from testinfra.backend.paramiko import ParamikoBackend
from testinfra.host import Host

from provision import checks, engine, inventory, lab
from provision.checks import active
from provision.checks.finding import Action, Finding
from provision.errors import ProvisionError
from provision.facts import Unknown
from provision.facts.trials import Trials
from provision.lab.store import locked
from provision.target import Target, target, wanted
from provision.trials.attempt import attempt, untried

Tell = Callable[[str, object], None]
"""pytest's `record_property`: name, value."""
CHOSEN = pytest.StashKey[list[inventory.Host]]()
"""The hosts that `--host` and `--group` name."""


class OnOurLogin(ParamikoBackend):
    """testinfra's paramiko backend on the login that the probe already has."""

    NAME = "firstlight"

    def __init__(self, site: Target) -> None:
        super().__init__(site.host.name, sudo=site.transport.address.user != "root")
        self.__dict__["client"] = site.transport.client  # instead of a login of its own


@dataclass(frozen=True)
class Site:
    """One host: how to reach it, what the probe saw, what the checks say."""

    target: Target
    look: engine.Look
    rows: list[Finding]

    def hold(self, told: Tell, check: str, subject: str | None = None) -> None:
        """Fail with what is wrong, in sentences; skip what this host or model has nothing of.

        `told` takes each row asked for, as properties of the test in its JUnit XML.
        """
        rows = [r for r in self.rows if r.id == check and subject in (None, r.subject)]
        for row in rows:
            told(f"{row.id}[{row.subject}]", f"{row.prose} → {row.action.value}")
        if not rows:
            told(f"{check}[{subject or 'host'}]", "nothing to check")
            pytest.skip(f"nothing to check: no {check} of {subject or 'this host'}")
        wrong = [row for row in rows if row.action not in (Action.NONE, Action.IGNORE)]
        if wrong:
            lines = (f"{row.prose} → {row.action.value}: {row.reason}" for row in wrong)
            pytest.fail("\n".join(lines), pytrace=False)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """What the files here say of the hosts asked for, read once: a mistake ends the run in a line.

    An error of a later hook would stand under every module, one of a fixture under every test.
    """
    config = collector.config
    if CHOSEN in config.stash:
        return
    try:
        chosen = inventory.load().select(config.getoption("host"), config.getoption("group"))
        for host in chosen:
            wanted(host)
    except ProvisionError as error:
        raise pytest.UsageError(_told(error)) from error
    config.stash[CHOSEN] = chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "site" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.stash[CHOSEN]
    if "gpu" in metafunc.fixturenames:
        # Where the inventory does not say how many there are, all are asked at once.
        cells = [
            (host.name, number)
            for host in chosen
            for number in (range(host.gpus.count) if host.gpus else (None,))
        ]
        ids = [
            f"{name}-GPUs" if number is None else f"{name}-GPU{number}" for name, number in cells
        ]
        metafunc.parametrize(("site", "gpu"), cells, indirect=["site"], ids=ids, scope="session")
    else:
        names = [host.name for host in chosen]
        metafunc.parametrize("site", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def looked() -> dict[str, Site | str]:
    """Host → its site, or why it can't be looked at: nothing is asked of it twice."""
    return {}


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest, looked: dict[str, Site | str]) -> Site:
    name = request.param
    if name not in looked:
        looked[name] = _look(inventory.load().hosts[name], request.config)
    there = looked[name]
    if isinstance(there, str):
        pytest.fail(there, pytrace=False)
    return there


@pytest.fixture(scope="session")
def host(site: Site) -> Host:
    """testinfra's host, asked without the probe."""
    return Host(OnOurLogin(site.target))


def is_up(name: str) -> bool:
    found = lab.find(name)
    return found is not None and found.running


def _try(there: Target, seen: engine.Look, config: pytest.Config) -> Trials | Unknown:
    try:
        return attempt(there, seen.facts, config.getoption("python"))
    except ProvisionError as error:
        return untried(error)


def _look(host: inventory.Host, config: pytest.Config) -> Site | str:
    if host.lab and (reason := lab.unavailable()):
        pytest.skip(f"no lab host can stand here: {reason}")
    try:
        with locked(f"infra-{host.name}") if host.lab else nullcontext():
            # Of several test processes one boots it, and the others wait until it is finished.
            if host.lab and not is_up(host.name):
                there = target(host, start=lambda _: None)
                seen = engine.provision(there, lambda _: None)
            else:
                there = target(host)
                seen = engine.look(there)
        rows = checks.check(there.want, seen.facts, seen.plan)
        if config.getoption("active"):
            rows += active.check(there.want, seen.facts, _try(there, seen, config))
    except ProvisionError as error:
        return _told(error)
    return Site(there, seen, rows)


def _told(error: ProvisionError) -> str:
    return f"{error.what}\nhint: {error.hint}" if error.hint else error.what
