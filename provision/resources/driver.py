"""The NVIDIA driver's packages and its module on disk. Reads os, dpkg, apt, boot, kernel, pci."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from provision import TOOL
from provision.facts import Facts, Module, Os, Policy
from provision.plan import Change, Json, Keep, Stage
from provision.promises import UNSEEN
from provision.resources import headers
from provision.resources.apt_packages import kept, packages_change, reinstalled, there
from provision.resources.known import NotKnown, known
from provision.stack import DriverPackages
from provision.want import Want

NAME = "driver"
KEPT = f"/var/lib/{TOOL}/kept"
"""A folder for each version that the host can go back to."""
STAGE = Stage.PACKAGES
PART = re.compile(r".*nvidia|libcuda(1|debugger1)(:|$)|libnv(cuvid|optix)")
DRIVER_VERSION = re.compile(r"\d{3}\.\d+(\.\d+)?-")
"""Driver versions have three digits first; the container toolkit and other tools do not."""
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
    """Package → exact version."""
    names = packages(want, known(facts.os, "os"))
    return dict.fromkeys(names.packages, f"{want.stack.system.driver.version}{names.revision}")


def strays(want: Want, facts: Facts) -> tuple[dict[str, str | None], list[str]]:
    """Installed parts of a driver beside the wanted packages: those that follow, those that go.

    A part follows when the wanted version of it exists, as the stack or the index says, or was
    kept; other branches and the distribution's own builds go, and so does what the stack does not
    want beside it.
    """
    wanted = expected(want, facts)
    pinned = packages(want, known(facts.os, "os")).pinned
    version = next(iter(wanted.values()))
    dpkg, policy = known(facts.dpkg, "dpkg"), known(facts.apt, "apt").policy
    follow: dict[str, str | None] = {}
    go: list[str] = []
    for name in sorted(dpkg.packages.keys() - wanted.keys()):
        package = there(dpkg, name)
        if package is None:
            continue
        if any(fnmatch(name, pattern) for pattern in want.stack.system.driver.unwanted):
            go.append(name)
        elif PART.match(name) and DRIVER_VERSION.match(package.version):
            offered = name in policy and version in policy[name].versions
            if name in pinned or offered or kept(facts, name, version):
                follow[name] = version
            else:
                go.append(name)
    return follow, go


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
    follow, go = strays(want, facts)
    keeps = _kept(want, facts, follow)
    changes = packages_change(
        NAME,
        STAGE,
        facts,
        subject=driver.version,
        wanted=expected(want, facts),
        moved=follow,
        unwanted=go,
        first=keeps,
        why=f"stack {want.stack.name} wants driver {driver.version}, open modules, one origin",
        makes={**built, "driver": {"library": driver.version, "smi": True}, **_promised(keeps)},
    )
    return changes or [*_modules(want, facts, kernels), *_tools(want, facts)]


def _kept(want: Want, facts: Facts, moved: dict[str, str | None]) -> tuple[Keep, ...]:
    """The packages of the version that goes are kept, for `rollback`; older ones go.

    Only where they are the stack's own packages: a driver of another making can't be gone back to.
    """
    dpkg, policy = known(facts.dpkg, "dpkg"), known(facts.apt, "apt").policy
    wanted = expected(want, facts)
    packages = {name: p.version for name in (*wanted, *moved) if (p := there(dpkg, name))}
    main = next(iter(wanted))
    before = packages.get(main)
    fetched = [
        name
        for name, version in packages.items()
        if version == before and _fetchable(policy.get(name), version)
    ]
    if before is None or before == wanted[main] or main not in fetched:
        return ()
    older = known(facts.kept, "kept").get(main, {}).keys() - {before, wanted[main]}
    return (
        Keep(
            packages=dict.fromkeys(fetched, before),
            folder=f"{KEPT}/{before}",
            forget=tuple(f"{KEPT}/{version}" for version in sorted(older)),
        ),
    )


def _promised(keeps: tuple[Keep, ...]) -> Json:
    """What is kept once it is; the files' names only the host will tell."""
    gone = {Path(folder).name: None for keep in keeps for folder in keep.forget}
    files = {
        name: {version: UNSEEN, **gone} for keep in keeps for name, version in keep.packages.items()
    }
    return {"kept": files} if files else {}


def _fetchable(policy: Policy | None, version: str) -> bool:
    """A source still offers what is installed."""
    origins = policy.versions.get(version, "") if policy else ""
    return any(origin != "installed" for origin in origins.split())


def _modules(want: Want, facts: Facts, kernels: list[str]) -> list[Change]:
    """The packages are right, but a kernel lacks the module that DKMS should have built."""
    driver = want.stack.system.driver
    module = {"version": driver.version, "license": LICENSE[driver.open]}
    available = known(facts.kernel, "kernel").available
    lacking = [kernel for kernel in kernels if available.get(kernel) != Module(**module)]
    if not lacking:
        return []
    seen = ", ".join(f"{_named(available.get(kernel))} for {kernel}" for kernel in lacking)
    return [
        reinstalled(
            NAME,
            STAGE,
            facts,
            subject="module",
            names=[packages(want, known(facts.os, "os")).module],
            why=f"the packages are installed, but there is {seen}: DKMS must build it anew",
            makes={"kernel": {"available": dict.fromkeys(lacking, module)}},
        )
    ]


def _tools(want: Want, facts: Facts) -> list[Change]:
    """The packages are right, but nvidia-smi is gone."""
    if known(facts.driver, "driver").smi:
        return []
    return [
        reinstalled(
            NAME,
            STAGE,
            facts,
            subject="nvidia-smi",
            names=[packages(want, known(facts.os, "os")).tools],
            why="the packages are installed, but there is no nvidia-smi",
            makes={"driver": {"smi": True}},
        )
    ]


def _named(module: Module | None) -> str:
    return f"{module.version} ({module.license})" if module else "no module"
