"""The NVIDIA driver's packages and its module on disk. Reads os, dpkg, apt, boot, kernel, pci."""

from __future__ import annotations

from typing import Any

from provision.facts import Facts, Module, Os
from provision.plan import Change, Run, Stage
from provision.resources import headers
from provision.resources.apt_packages import packages_change
from provision.resources.known import NotKnown, known
from provision.stack import DriverPackages
from provision.want import Want

NAME = "driver"
STAGE = Stage.PACKAGES
LICENSE = {True: "Dual MIT/GPL", False: "NVIDIA"}
"""What `modinfo -F license nvidia` prints for the open and the proprietary module."""


def query(want: Want) -> dict[str, Any]:
    driver = want.stack.system.driver
    packages = {p for d in (driver.debian, driver.ubuntu) for p in (*d.packages, *d.pinned)}
    return {"packages": sorted(packages), "policy": sorted(packages)}


def packages(want: Want, os: Os) -> DriverPackages:
    """This distribution's packages. Raises NotKnown where the stack knows none."""
    found = want.driver_for(os)
    if found is None:
        raise NotKnown(
            f"stack {want.stack.name} knows no driver packages for {os.name}", subject=os.id
        )
    return found


def expected(want: Want, facts: Facts) -> dict[str, str | None]:
    """Package → exact version: those wanted, and of those pinned what is installed."""
    names = packages(want, known(facts.os, "os"))
    version = f"{want.stack.system.driver.version}{names.revision}"
    there = known(facts.dpkg, "dpkg").packages
    moved = (name for name in names.pinned if (p := there.get(name)) and p.status == "installed")
    return dict.fromkeys((*names.packages, *moved), version)


def plan(want: Want, facts: Facts) -> list[Change]:
    if not known(facts.pci, "pci"):
        raise NotKnown(
            "no NVIDIA device on the PCI bus",
            subject="pci",
            hint="check that the cards are seated, powered and enabled in the firmware",
        )
    driver = want.stack.system.driver
    kernels = headers.kernels(known(facts.boot, "boot"))
    module = {"version": driver.version, "license": LICENSE[driver.open]}
    built = {"kernel": {"available": dict.fromkeys(kernels, module)}}
    changes = packages_change(
        NAME,
        STAGE,
        facts,
        subject=driver.version,
        wanted=expected(want, facts),
        why=f"stack {want.stack.name} wants driver {driver.version}, open modules, one origin",
        makes={**built, "driver": {"library": driver.version}},
    )
    return changes or _modules(want, facts, kernels)


def _modules(want: Want, facts: Facts, kernels: list[str]) -> list[Change]:
    """The packages are right, but a kernel lacks the module that DKMS should have built."""
    driver = want.stack.system.driver
    module = {"version": driver.version, "license": LICENSE[driver.open]}
    available = known(facts.kernel, "kernel").available
    lacking = [kernel for kernel in kernels if not _right(available.get(kernel), want)]
    return [
        Change(
            resource=NAME,
            subject=f"module for {kernel}",
            stage=STAGE,
            before=_named(available.get(kernel)),
            after=_named(Module(**module)),
            why="the packages are installed, but DKMS has not built the module for this kernel",
            actions=(Run(argv=("dkms", "autoinstall", "-k", kernel), timeout=1800.0),),
            makes={"kernel": {"available": {kernel: module}}},
        )
        for kernel in lacking
    ]


def _named(module: Module | None) -> str:
    return f"{module.version} ({module.license})" if module else "no module"


def _right(module: Module | None, want: Want) -> bool:
    driver = want.stack.system.driver
    return module == Module(version=driver.version, license=LICENSE[driver.open])
