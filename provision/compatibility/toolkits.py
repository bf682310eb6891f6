"""Each toolkit against the driver, the host's compiler and glibc, and the GPUs.

Their numbers stand in the stack's system TOML, with whom they are from.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from provision.compatibility import seen
from provision.compatibility.row import Row, Unseen, judged, unknown
from provision.facts import Facts
from provision.want import Want


def driver(want: Want, facts: Facts | None) -> Iterator[Row]:  # noqa: ARG001 - as every rule
    """The stack's driver runs what each toolkit builds."""
    have = want.stack.system.driver.version
    for release, toolkit in want.stack.toolkit.items():
        floor = want.stack.system.any_minor.get(release.partition(".")[0], toolkit.driver)
        least = min(toolkit.driver, floor, key=Version)
        whole = Version(have) >= Version(toolkit.driver)
        yield judged(
            Version(have) >= Version(least),
            rule="toolkit.driver",
            subject=f"CUDA {release}",
            left=f"CUDA {release} wants driver {toolkit.driver}, at the least {least}",
            right=f"the stack's driver is {have}",
            source=f"system: toolkit.{release}.driver, any_minor",
            reason="CUDA driver version is insufficient for CUDA runtime version",
            hint=f"name driver {toolkit.driver} or later in the system's TOML",
            note="" if whole else "by minor-version compatibility, so without PTX",
        )


def gcc(want: Want, facts: Facts | None) -> Iterator[Row]:
    """nvcc takes the host's gcc."""
    have = seen.gcc(facts)
    for release, toolkit in want.stack.toolkit.items():
        most = toolkit.gcc_max
        if most is None:
            continue
        subject, left = f"CUDA {release}", f"nvcc {release} takes gcc up to {most}"
        source = f"system: toolkit.{release}.gcc_max"
        if isinstance(have, Unseen):
            yield unknown("toolkit.gcc", subject, left, have, source)
            continue
        major, version = have
        yield judged(
            major <= most,
            rule="toolkit.gcc",
            subject=subject,
            left=left,
            right=f"the host's is gcc {version}",
            source=source,
            reason="unsupported GNU version",
            hint=f"choose a stack without CUDA {release} for this host, or make gcc-{most} its gcc",
        )


def glibc(want: Want, facts: Facts | None) -> Iterator[Row]:
    """nvcc can read the headers of the host's glibc."""
    have = seen.glibc(facts)
    for release, toolkit in want.stack.toolkit.items():
        end = toolkit.glibc_below
        if end is None:
            continue
        subject, left = (
            f"CUDA {release}",
            f"nvcc {release} reads the headers of a glibc below {end}",
        )
        source = f"system: toolkit.{release}.glibc_below"
        if isinstance(have, Unseen):
            yield unknown("toolkit.glibc", subject, left, have, source)
            continue
        version, spelled = have
        yield judged(
            version < Version(end),
            rule="toolkit.glibc",
            subject=subject,
            left=left,
            right=f"the host has {spelled}",
            source=source,
            reason="exception specification is incompatible",
            hint=f"choose a stack without CUDA {release} for this host, or a distribution "
            f"with a glibc below {end}",
        )


def architecture(want: Want, facts: Facts | None) -> Iterator[Row]:
    """nvcc can compile for the GPUs."""
    for release in want.stack.toolkit:
        name = f"CUDA {release}"
        yield from compiles_for(want, facts, ("toolkit.architecture", name), "nvcc", release)


def compiles_for(
    want: Want, facts: Facts | None, about: tuple[str, str], who: str, cuda: str
) -> Iterator[Row]:
    """A CUDA release knows every GPU's architecture: a row for each model.

    `about` is the rule's name and its subject.
    """
    rule, subject = about
    left, source = f"{who} is of CUDA {cuda}", "system: architecture"
    gpus = seen.gpus(want, facts)
    if not gpus:
        why = Unseen("no GPUs are seen or expected") if facts else seen.NO_HOST
        yield unknown(rule, subject, left, why, source)
    for gpu, capability in gpus.items():
        if capability is None:
            why = Unseen(f"no table of ours tells the compute capability of {gpu}")
            yield unknown(rule, subject, left, why, source)
            continue
        first = want.stack.system.architecture[capability].cuda
        yield judged(
            Version(cuda) >= Version(first),
            rule=rule,
            subject=subject,
            left=left,
            right=f"{gpu} is sm_{capability.replace('.', '')}, known from CUDA {first} on",
            source=f"{source}.{capability}",
            reason="no kernel image is available for execution on the device",
            hint=f"choose a stack with CUDA {first} or later for these GPUs",
        )
