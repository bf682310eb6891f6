"""What would fail later, said before anything changes. Changes nothing itself.

Reads os, compilers, gpus, pci, driver, secure_boot, dpkg, environments, disks. Each rule gives a
blocked change: which host property, why it can't work, what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from provision import compatibility
from provision.facts import Absent, Facts
from provision.plan import Change, Stage
from provision.resources import apt_packages, apt_source, driver, environment, toolkits
from provision.resources.known import NotKnown, known
from provision.want import Want

NAME = "preflight"
STAGE = Stage.PREFLIGHT
Rule = Callable[[Want, Facts], Iterator[NotKnown]]
ARCH = "x86_64"
"""The one that the stacks' repositories and locks are for."""

SPACE = {"/boot": "apt-get autoremove --purge, which removes old kernels"}
"""What may help on a mount instead of apt-get clean."""


def query(want: Want) -> dict[str, Any]:
    return {}


def plan(want: Want, facts: Facts) -> list[Change]:
    reasons = [reason for rule in RULES for reason in _asked(rule, want, facts)]
    return [
        Change(
            resource=NAME,
            subject=reason.subject,
            stage=STAGE,
            before="as it is",
            after="nothing can be done",
            why="it would fail later",
            blocked=str(reason),
            hint=reason.hint,
        )
        for reason in {str(reason): reason for reason in reasons}.values()
    ]


def _asked(rule: Rule, want: Want, facts: Facts) -> list[NotKnown]:
    """What a rule finds; a fact that it lacks is found, too, and hides nothing of the others."""
    try:
        return list(rule(want, facts))
    except NotKnown as unknown:
        return [unknown]


def _distribution(want: Want, facts: Facts) -> Iterator[NotKnown]:
    os = known(facts.os, "os")
    for ask in (apt_source.repository, driver.packages):
        try:
            ask(want, os)
        except NotKnown as reason:
            yield reason
            return
    if os.arch != ARCH and want.repository is None:
        yield NotKnown(
            f"the stack's repository is for {ARCH}, this host is {os.arch}",
            subject=os.arch,
            hint="name a repository for it in the inventory, such as NVIDIA's sbsa",
        )


def _systemd(want: Want, facts: Facts) -> Iterator[NotKnown]:
    if not known(facts.os, "os").systemd:
        yield NotKnown(
            "no systemd is running here: services and reboots need it",
            subject="systemd",
            hint="`facts`, `plan` and `verify` work without it; a container is provisioned "
            "from the host that it runs on",
        )


def _compatible(want: Want, facts: Facts) -> Iterator[NotKnown]:
    """What can't go together, in the stack itself or with this host."""
    for row in compatibility.violated(compatibility.check(want, facts)):
        yield NotKnown(f"{row.left}, {row.right}: {row.reason}", subject=row.subject, hint=row.hint)
    known(facts.os, "os")
    known(facts.compilers, "compilers")


def _runfile(want: Want, facts: Facts) -> Iterator[NotKnown]:
    runfile = known(facts.driver, "driver").runfile
    if runfile:
        yield NotKnown(
            f"a driver was installed from a .run file: {runfile} is there; "
            "packages would mix with its files",
            subject="driver",
            hint=f"on the host: {runfile} --silent, restart it, and plan again",
        )


def _secure_boot(want: Want, facts: Facts) -> Iterator[NotKnown]:
    if isinstance(facts.secure_boot, Absent):
        return
    state = known(facts.secure_boot, "secure_boot")
    if state.enabled and not state.enrolled:
        key = "is not enrolled" if state.enrolled is False else "can't be found (is mokutil there?)"
        yield NotKnown(
            f"Secure Boot is on and the key that DKMS signs with {key}: "
            "the kernel would refuse the module (Key was rejected by service)",
            subject="secure boot",
            hint="enrol the key (mokutil --import KEY, then confirm at the console while booting) "
            "or switch Secure Boot off in the firmware",
        )


def _space(want: Want, facts: Facts) -> Iterator[NotKnown]:
    """Of the stack's figures for packages the largest counts for a whole file system."""
    packages = apt_packages.missing(toolkits.expected(want, facts), known(facts.dpkg, "dpkg"))
    figures = want.stack.system.space if packages else {}
    releases: list[tuple[str, float, str]] = []
    with suppress(NotKnown):  # which is said where the environment is planned
        releases = list(environment.room(want, facts))
    if not (figures or releases):
        return
    disks = known(facts.disks, "disks")
    root = min(disks)
    mounts: dict[int, list[str]] = {}
    for mount in sorted(disks):
        mounts.setdefault(disks[mount].device, []).append(mount)
    for device, shared in mounts.items():
        parts = [(gib, "packages") for mount, gib in figures.items() if mount in shared]
        parts = [max(parts)] if parts else []
        parts += [(g, f) for m, g, f in releases if disks.get(m, disks[root]).device == device]
        mount, gib = shared[0], sum(gib for gib, _ in parts)
        free = disks[mount].free
        if free < gib * 2**30:
            what = ", ".join(f"{gib:.3g} for {what}" for gib, what in parts)
            yield NotKnown(
                f"{mount} has {free / 2**30:.1f} GiB free, {gib:.3g} GiB are needed: {what}",
                subject=mount,
                hint=f"make space on {mount}, for example: {SPACE.get(mount, 'apt-get clean')}",
            )


RULES: tuple[Rule, ...] = (
    _distribution,
    _systemd,
    _compatible,
    _runfile,
    _secure_boot,
    _space,
)
