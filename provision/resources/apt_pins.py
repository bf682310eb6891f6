"""What apt may not move: our preferences file, over an explicit list of packages. Reads os, files.

Pinning the metapackage alone would let its dependencies float. Priority 1001 makes a
downgrade possible (apt_preferences(5)). The distribution's own NVIDIA builds are kept out:
mixed origins end in "held broken packages".
"""

from __future__ import annotations

from typing import Any

from provision import TOOL
from provision.facts import Facts
from provision.plan import Change, Stage
from provision.resources import driver
from provision.resources.apt_packages import asked, there
from provision.resources.known import known
from provision.resources.managed_file import file_change
from provision.want import Want

NAME = "apt_pins"
STAGE = Stage.SOURCES
VENDOR = "nvidia-driver-pinning-"
PURGE = ("apt-get", "purge", "--yes", "-o", "DPkg::Lock::Timeout=600")
PATH = f"/etc/apt/preferences.d/{TOOL}.pref"
"""A dot extension other than .pref would be silently ignored."""


def query(want: Want) -> dict[str, Any]:
    return {"files": [PATH]}


def content(want: Want, facts: Facts) -> str:
    """The preferences file for this host's distribution."""
    packages = driver.packages(want, known(facts.os, "os"))
    version = f"{want.stack.system.driver.version}{packages.revision}"
    pins = [
        _pin(" ".join(packages.pinned), f"version {version}", 1001),
        *(
            _pin(toolkit.package, f"version {toolkit.version}", 1001)
            for toolkit in want.stack.toolkit.values()
        ),
        _pin("*nvidia* libcuda1", f"release o={packages.archive}", -1),
    ]
    return f"# Written by {TOOL}, and written again when it differs.\n\n" + "\n".join(pins)


def plan(want: Want, facts: Facts) -> list[Change]:
    return [*_vendor_pins(facts), *_file(want, facts)]


def _vendor_pins(facts: Facts) -> list[Change]:
    """NVIDIA's own pinning packages go with their configuration, which would stay in force."""
    dpkg = known(facts.dpkg, "dpkg")
    names = [name for name in dpkg.packages if name.startswith(VENDOR) and there(dpkg, name)]
    if not names:
        return []
    apt = asked(facts, (*PURGE, *names))
    return [
        Change(
            resource=NAME,
            subject=", ".join(names),
            stage=STAGE,
            before="pins the driver",
            after="removed",
            why=f"the driver's version is pinned in {PATH} alone",
            actions=(apt,),
            makes={"dpkg": {"packages": dict.fromkeys(names)}},
        )
    ]


def _file(want: Want, facts: Facts) -> list[Change]:
    return file_change(
        NAME,
        STAGE,
        facts,
        path=PATH,
        content=content(want, facts),
        why="no upgrade may move the driver or the toolkits",
    )


def _pin(packages: str, pin: str, priority: int) -> str:
    return f"Package: {packages}\nPin: {pin}\nPin-Priority: {priority}\n"
