"""One driver version, as module, library, package and NVML see it; in the wanted flavour."""

import pytest


@pytest.mark.parametrize("source", ["module", "flavour", "library", "package", "nvml"])
def test_driver_is_the_wanted_one(site, source):
    for row in site.findings(f"driver.{source}"):
        assert row.ok, f"expected {row.expected}, found {row.observed}: {row.action.value}"


def test_pins_hold_the_driver(site):
    """apt's candidate is what is installed: no upgrade would move it."""
    apt, dpkg = site.look.facts.apt, site.look.facts.dpkg
    names = site.target.want.driver_for(site.look.facts.os).pinned
    installed = {n: p.version for n in names if (p := dpkg.packages.get(n))}
    assert installed, "no driver package is installed"
    assert {name: apt.policy[name].candidate for name in installed} == installed
