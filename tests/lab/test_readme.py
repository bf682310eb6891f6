"""What the README tells a newcomer to type works where it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision import lab
from provision.target import lab_spec, target
from tests.lab.hosts import host_entry

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def stock():
    """A Debian that has neither pip nor uv."""
    host = host_entry("t-stock")
    lab.up(lab_spec(host), fresh=True, say=lambda _: None)
    there = target(host)
    yield there.transport
    there.transport.close()
    lab.down(host.name, discard=True)


def test_the_line_for_machines_without_pip_brings_uv(stock):
    (line,) = [
        one for one in README.read_text().splitlines() if "install pipx" in one or "-y pipx" in one
    ]
    command = f"export DEBIAN_FRONTEND=noninteractive HOME=/root; {line.strip()} && uv --version"
    before = stock.run(("/bin/sh", "-c", "command -v pip uv"), b"", deadline=10)
    said = stock.run(("/bin/sh", "-c", command), b"", deadline=240)
    assert before.exit != 0
    assert said.out.splitlines()[-1].startswith("uv "), said.err[-2000:]
