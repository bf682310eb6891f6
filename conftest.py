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
    group.addoption("--active", action="store_true", help="also make the GPUs work")
    group.addoption("--python", default="", help="interpreter with torch for --active")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("python") and not config.getoption("active"):
        raise pytest.UsageError("--python names the interpreter of --active: add --active")
