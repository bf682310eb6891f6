"""The driver's version as four sources see it: module, library, dpkg, NVML; and the flavour.

When they differ nvidia-smi says "Driver/library version mismatch" (exit 18) or can't
communicate with the driver (exit 9).
"""

from __future__ import annotations

from provision.checks.finding import Action, Finding, compare, unknown
from provision.facts import Absent, Apt, Dpkg, Driver, Facts, Nvml, Os, Package, Unknown
from provision.want import Want


def check(want: Want, facts: Facts) -> list[Finding]:
    version = want.stack.system.driver.version
    return [
        *_module(want, facts, version),
        _package(want, facts, version),
        *_pinned(want, facts),
        _nvml(facts, version),
    ]


def _module(want: Want, facts: Facts, version: str) -> list[Finding]:
    if not isinstance(facts.driver, Driver):
        return [_unseen("driver.module", version, facts.driver)]
    flavour = "open" if want.stack.system.driver.open else "proprietary"
    return [
        compare(
            "driver.module",
            "host",
            expected=version,
            observed=facts.driver.loaded,
            action=Action.PROVISION,
            reason="the module in the kernel is not the one wanted",
        ),
        compare(
            "driver.flavour",
            "host",
            expected=flavour,
            observed=facts.driver.flavour,
            action=Action.PROVISION,
            reason="Blackwell GPUs work with the open modules only",
        ),
        compare(
            "driver.library",
            "host",
            expected=version,
            observed=facts.driver.library,
            action=Action.PROVISION,
            reason="user-space libraries of another version refuse the module",
        ),
    ]


def _package(want: Want, facts: Facts, version: str) -> Finding:
    if not isinstance(facts.dpkg, Dpkg):
        return _unseen("driver.package", version, facts.dpkg)
    if not isinstance(facts.os, Os):
        return _unseen("driver.package", version, facts.os)
    packages = want.driver_for(facts.os)
    if packages is None:
        return unknown(
            "driver.package", "host", expected=version, reason=f"no packages for {facts.os.name}"
        )
    name = packages.packages[0]
    there = facts.dpkg.packages.get(name)
    return compare(
        "driver.package",
        name,
        expected=f"{version}{packages.revision}",
        observed=_state(there),
        action=Action.PROVISION,
        reason="the package is not the one wanted",
    )


def _state(package: Package | None) -> str:
    if package is None:
        return "not installed"
    return package.version if package.status == "installed" else package.status


def _pinned(want: Want, facts: Facts) -> list[Finding]:
    """apt's candidate for every package of the driver is the wanted version, whoever else pins."""
    answers = facts.os, facts.apt, facts.dpkg
    os, apt, dpkg = answers
    if not (isinstance(os, Os) and isinstance(apt, Apt) and isinstance(dpkg, Dpkg)):
        unseen = next(a for a in answers if isinstance(a, Unknown | Absent))
        return [_unseen("driver.pinned", "held by its pin", unseen)]
    names = want.driver_for(os)
    if names is None:
        return []
    if apt.error:
        return [unknown("driver.pinned", "host", expected="held by its pin", reason=apt.error)]
    return [
        compare(
            "driver.pinned",
            name,
            expected=f"{want.stack.system.driver.version}{names.revision}",
            observed=apt.policy[name].candidate if name in apt.policy else None,
            action=Action.INSPECT,
            reason="the next upgrade moves it, or can't be: `apt-cache policy "
            f"{name}` tells whose pin counts, /etc/apt/preferences.d has them",
            noun="apt's candidate is",
        )
        for name in dict.fromkeys((*names.packages, *names.pinned))
        if dpkg.packages.get(name)
    ]


def _nvml(facts: Facts, version: str) -> Finding:
    if not isinstance(facts.nvml, Nvml):
        return _unseen("driver.nvml", version, facts.nvml)
    return compare(
        "driver.nvml",
        "nvidia-smi",
        expected=version,
        observed=facts.nvml.driver if facts.nvml.exit == 0 else f"exit {facts.nvml.exit}",
        action=Action.REBOOT,
        reason=facts.nvml.message or "NVML sees another driver",
    )


def _unseen(name: str, version: str, answer: object) -> Finding:
    reason = answer.reason if isinstance(answer, Unknown | Absent) else ""
    return unknown(name, "host", expected=version, reason=reason or "it is not on this host")
