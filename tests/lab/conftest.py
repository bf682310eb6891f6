"""What lab tests need: a machine that can carry a lab host, and a finished host to start from."""

import os
from pathlib import Path

import pytest

from provision import engine, lab
from provision.target import lab_spec, target
from tests.lab import matrix
from tests.lab.hosts import host_entry

LAYER = "t-finished"


@pytest.fixture(scope="session", autouse=True)
def _a_lab_can_stand_here():
    if reason := lab.unavailable():
        pytest.skip(f"no lab host can stand here: {reason}")


@pytest.fixture(scope="session")
def finished():
    """The label of a layer with everything in place, on which other hosts stand."""
    host = host_entry("t-clean")
    lab.up(lab_spec(host), fresh=True, say=lambda _: None)
    there = target(host)
    engine.provision(there, lambda _: None)
    there.transport.close()
    lab.freeze(host.name, LAYER)
    lab.down(host.name, discard=True)
    yield LAYER
    lab.discard_layer(LAYER)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The faults that were tried, as a table; into a document where one is named."""
    if not matrix.CELLS:
        return
    terminalreporter.section("faults")
    for line in matrix.table():
        terminalreporter.line(line)
    if file := os.environ.get(matrix.VARIABLE):
        matrix.write(Path(file))
