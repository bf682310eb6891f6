"""Each environment's lock against the host's Python and glibc."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from provision.compatibility import seen
from provision.compatibility.row import Row, Unseen, judged, unknown
from provision.facts import Facts
from provision.interpreter import Interpreter, interpreter, managed
from provision.want import Want


def python(want: Want, facts: Facts | None) -> Iterator[Row]:
    """The environment is locked for the Python that it is made with, and that can be had."""
    system = seen.os(facts)
    for name, environment in want.stack.environment.items():
        left = f"environment {name} is locked for Python {environment.python}"
        source = f"stack: environment.{name}.python"
        if fetched := managed(environment):
            yield _fetched(name, fetched, want, left)
            continue
        if isinstance(system, Unseen):
            yield unknown("environment.python", f"environment {name}", left, system, source)
            continue
        have = system.python.version
        yield judged(
            environment.takes(have),
            rule="environment.python",
            subject=f"environment {name}",
            left=left,
            right=f"the host's /usr/bin/python3 is {have}",
            source=source,
            reason="its lock has no versions for it",
            hint="choose another distribution for this host; or widen the range in the stack, "
            f"and: invoke lock --stack {want.stack.name}; or have uv fetch another Python, with "
            '`interpreter = "managed"`',
            note=interpreter(environment, system).reason,
        )


def _fetched(name: str, python: Interpreter, want: Want, left: str) -> Row:
    return judged(
        not want.site.feed,
        rule="environment.python",
        subject=f"environment {name}",
        left=left,
        right=f"uv is to fetch Python {python.managed}",
        source=f"stack: environment.{name}.interpreter",
        reason="this host is fed: it does not reach uv's download site",
        hint='say `interpreter = "system"` in the stack; or, where the host reaches that site, '
        "`feed: false` in the inventory",
        note=python.reason,
    )


def platform(want: Want, facts: Facts | None) -> Iterator[Row]:
    """The locked wheels run on the host's glibc."""
    have = seen.glibc(facts)
    for name, environment in want.stack.environment.items():
        least = environment.platform.removeprefix("manylinux_").replace("_", ".")
        left = f"environment {name} has wheels for a glibc of {least} or later"
        source = f"stack: environment.{name}.platform"
        if isinstance(have, Unseen):
            yield unknown("environment.platform", f"environment {name}", left, have, source)
            continue
        version, spelled = have
        yield judged(
            version >= Version(least),
            rule="environment.platform",
            subject=f"environment {name}",
            left=left,
            right=f"the host has {spelled}",
            source=source,
            reason="its wheels would not load",
            hint="choose a newer distribution for this host",
        )
