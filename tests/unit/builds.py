"""Builds on facts: a host, what is asked of it, and what it would say of a build that is done."""

import base64
import dataclasses
import json

from samples import WANT, seen

from provision import inventory
from provision.inventory import Lab
from provision.target import Target
from provision.transport.recorded import Recorded
from wheels import profile, recipe
from wheels.plan import Order, plan

MIB = 2**20
UNITS = ("binomial_62_8.cu", "binomial_8_4.cu", "power_8.cu")
"""Of the recipe lab-kernels, some."""
FILE = "lab_kernels-1.0+cu131-cp311-cp311-linux_x86_64.whl"
WHEEL = b"what the build host made"


def target(name="h", *script, lab=None, wheelhouse=()):
    """A host that answers from a script."""
    host = inventory.Host(
        name=name, where="inventory.yaml:3", address="h", stack="lab", lab=lab and Lab(**lab)
    )
    want = dataclasses.replace(WANT, wheelhouse=tuple(wheelhouse))
    return Target(host=host, want=want, transport=Recorded(name, list(script)))


def planned(name="lab-kernels", *promises, where=None, known=None, facts=None, **order):
    """What building this recipe on the finished host comes to, with what differs."""
    asked = {
        "archs": {"9.0": "the recipe's"},
        "versions": {},
        "lock": "a lock\n",
        "source": b"the source",
        "code": b"the builder",
        "units": UNITS,
    }
    return plan(
        recipe.load(name) if isinstance(name, str) else name,
        known,
        where or target(),
        facts or seen(*promises),
        Order(**{**asked, **order}),
    )


def measured(unit, peak, cpu=60.0):
    """The builder's row of a unit whose memory climbed to so many MiB, and fell."""
    curve = [[0.1, 90 * MIB], [cpu / 2, peak * MIB], [cpu * 0.8, peak * MIB // 3]]
    return {
        "unit": unit,
        "command": "0" * 64,
        "exit": 0,
        "killed": False,
        "made": [1, 2],
        "start": 1000.0,
        "end": 1000.0 + cpu,
        "cpu": cpu,
        "peak": peak * MIB,
        "predicted": 2 * peak * MIB,
        "curve": curve,
    }


def said(**changes):
    """The builder's report of a build that is done."""
    report = {
        "file": FILE,
        "proof": {
            "requires": [],
            "archs": ["9.0"],
            "glibc": "2.34",
            "kernels": {"skipped": "this host has no GPU"},
        },
        "host": {
            "kernel": "6.1.0",
            "machine": "x86_64",
            "glibc": "glibc 2.36",
            "nvcc": "Build cuda_13.1",
            "processors": 16,
        },
        "start": 1000,
        "seconds": 61.5,
        "units": [measured(unit, 700 + 100 * n) for n, unit in enumerate(UNITS)],
        "memory": [{"at": 1030.0, "used": 2000 * MIB, "running": 3}],
    }
    return {**report, **changes}


def finished(report=None, wheel=WHEEL):
    """The answers of a host that is asked for a finished build, in order."""
    files = {"report.json": json.dumps(report or said()).encode(), FILE: wheel}
    return [
        (
            f"done/{name}",
            json.dumps({"content": base64.b64encode(data).decode(), "size": len(data)}),
        )
        for name, data in files.items()
    ]


def known(*rows):
    """A profile of what was measured before."""
    return profile.Profile(source="a test", machine="none", measured=rows)
