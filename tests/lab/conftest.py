"""What lab tests need: a machine that can carry a lab host, and a finished host to start from."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from provision import engine, lab
from provision.target import lab_spec, target
from tests.lab import matrix
from tests.lab.faults import EVERYWHERE, KINDS
from tests.lab.hosts import host_entry, on_host, own
from tests.lab.trial import NAME, Trial

LAYER = own("t-finished")


@pytest.fixture(scope="session", autouse=True)
def _a_lab_can_stand_here():
    if reason := lab.unavailable():
        pytest.skip(f"no lab host can stand here: {reason}")


@pytest.fixture(scope="session", autouse=True)
def _an_interruption_interrupts():
    """A shell that starts the tests in the background has them ignore SIGINT, and all below."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def finished():
    """The label of a layer with everything in place, on which other hosts stand."""
    host = host_entry(own("t-clean"))
    lab.up(lab_spec(host), fresh=True, say=lambda _: None)
    there = target(host)
    engine.provision(there, lambda _: None)
    there.transport.close()
    lab.freeze(host.name, LAYER)
    lab.down(host.name, discard=True)
    yield LAYER
    lab.discard_layer(LAYER)


@pytest.fixture(scope="session")
def layer(finished):
    """Makes and remembers the layer on which one kind of change is due; '': none is yet."""
    made: dict[str, str] = {}

    def of(kind: str) -> str:
        kind = kind if kind and KINDS[kind].disk else ""
        if kind not in made:
            host = host_entry(own(f"x-mess-{kind}".rstrip("-")), layer=finished)
            made[kind] = f"{host.name}-layer"
            lab.up(lab_spec(host), fresh=True, say=lambda _: None)
            on_host(target(host), (KINDS[kind].disk if kind else "") + EVERYWHERE)
            lab.freeze(host.name, made[kind])
        return made[kind]

    yield of
    for label in made.values():
        lab.discard_layer(label)


@pytest.fixture
def trial(layer, tmp_path):
    """Makes the host on which one kind of change is due, or none."""
    with contextlib.ExitStack() as stack:

        def on(kind: str = "") -> Trial:
            one = stack.enter_context(Trial(NAME, layer(kind), tmp_path))
            if kind and KINDS[kind].live:
                one.mess(KINDS[kind].live)
            return one

        yield on


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Single faults stand in the table by their tests' names; cells note themselves."""
    report = yield
    if (
        call.when == "call"
        and item.get_closest_marker("matrix")
        and "kind" not in item.fixturenames
    ):
        wrong = [str(call.excinfo.value).splitlines()[0]] if call.excinfo else []
        title = item.name.removeprefix("test_").replace("_", " ").replace("[", ": ").rstrip("]")
        matrix.CELLS["", title] = matrix.Cell(wrong, call.duration)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The faults that were tried, as a table; into a document where one is named."""
    if not matrix.CELLS:
        return
    terminalreporter.section("faults")
    for line in matrix.table():
        terminalreporter.line(line)
    if file := os.environ.get(matrix.VARIABLE):
        matrix.write(Path(file))
