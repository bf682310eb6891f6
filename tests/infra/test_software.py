"""The rest of what the checks say: driver, toolkits, environments, services, the machine."""

import pytest

ASKED = {
    "the module is the wanted one": "driver.module",
    "its flavour is the wanted one": "driver.flavour",
    "the library is the wanted one": "driver.library",
    "the package is the wanted one": "driver.package",
    "pins hold the driver": "driver.pinned",
    "NVML answers": "driver.nvml",
    "device files are there": "device_file",
    "containers reach GPUs": "containers",
    "toolkits answer": "toolkit",
    "cuda means a wanted toolkit": "toolkit.default",
    "the driver runs toolkits' and torch's CUDA": "cuda",
    "environments are as locked": "environment",
    "their files are as sealed": "environment.files",
    "their extensions fit torch and GPUs": "environment.extensions",
    "NumPy is in Numba's window": "environment.numba",
    "services run": "service",
    "the fabric manager runs": "fabricmanager.service",
    "the fabric manager is the driver's": "fabricmanager.version",
    "the matrix has all GPUs": "topology",
    "custom all-reduce is as the links allow": "allreduce.custom",
    "the IOMMU does not translate": "pcie.iommu",
    "no bridge redirects": "pcie.acs",
    "the clock is synchronised": "clock",
    "disks have room": "disk",
    "memory may be locked": "limit.memlock",
    "files may be open": "limit.nofile",
    "shared memory is large": "limit.shm",
    "Secure Boot is no hindrance": "secure_boot",
}


@pytest.mark.parametrize("check", ASKED.values(), ids=ASKED)
def test_host(site, check, record_property):
    site.hold(record_property, check)


def test_every_driver_package_is_pinned(site):
    """apt's candidate is what is installed: no upgrade would move it."""
    apt, dpkg = site.look.facts.apt, site.look.facts.dpkg
    names = site.target.want.driver_for(site.look.facts.os).pinned
    installed = {n: p.version for n in names if (p := dpkg.packages.get(n))}
    assert installed, "no driver package is installed"
    assert {name: apt.policy[name].candidate for name in installed} == installed
