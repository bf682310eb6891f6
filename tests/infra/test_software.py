"""Toolkits, environments and services, on the probe's facts."""

import pytest


@pytest.mark.parametrize("check", ["toolkit", "environment", "service"])
def test_software_is_as_wanted(site, check):
    for row in site.findings(check):
        assert row.ok, f"{row.subject}: expected {row.expected}, found {row.observed}: {row.reason}"
