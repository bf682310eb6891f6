"""Options of every test run: which hosts `tests/infra` checks."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("firstlight", "hosts that tests/infra checks")
    group.addoption(
        "--host",
        action="append",
        default=[],
        help="a host of inventory.yaml (repeatable; default: the inventory's default host)",
    )
    group.addoption(
        "--group", action="append", default=[], help="all hosts of a group (repeatable)"
    )
