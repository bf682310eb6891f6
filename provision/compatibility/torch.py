"""The torch that a lock holds against driver, toolkits, GPUs, and wheels that are built for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.version import Version

from provision.compatibility.row import Row, Unseen, judged, unknown
from provision.compatibility.toolkits import compiles_for
from provision.facts import Facts
from provision.locking.wheels import built_for
from provision.want import Want

RUNTIME = re.compile(r"nvidia-cuda-runtime(-cu\d+)?")
"""The distribution with CUDA's runtime that torch depends on: its version is torch's CUDA."""
NO_CUDA = Unseen("the lock has no CUDA runtime")


@dataclass(frozen=True, kw_only=True, slots=True)
class Torch:
    """One torch of an environment."""

    environment: str
    version: str
    cuda: str | None
    """Such as 12.8; None where the lock has no CUDA runtime."""

    @property
    def subject(self) -> str:
        """Of a row about it."""
        return f"environment {self.environment}"

    @property
    def major(self) -> str:
        """Of its CUDA."""
        return (self.cuda or "").partition(".")[0]


def cuda(versions: Mapping[str, str]) -> str | None:
    """The CUDA, such as 12.8, that torch brings with it; None without a CUDA runtime."""
    runtime = (version for name, version in versions.items() if RUNTIME.fullmatch(name))
    return ".".join(next(runtime, "").split(".")[:2]) or None


def torches(want: Want) -> Iterator[Torch]:
    """Every torch that a Python of an environment gets."""
    for name, environment in want.stack.environment.items():
        found: dict[Torch, None] = {}
        for python in environment.pythons:
            versions = want.stack.locks[name].versions(python)
            if "torch" in versions:
                torch = Torch(environment=name, version=versions["torch"], cuda=cuda(versions))
                found[torch] = None
        yield from found


def driver(want: Want, facts: Facts | None) -> Iterator[Row]:  # noqa: ARG001 - as every rule
    """The stack's driver runs torch's own CUDA."""
    have, source = want.stack.system.driver.version, "system: any_minor"
    for torch in torches(want):
        least = want.stack.system.any_minor.get(torch.major)
        left = f"torch {torch.version} brings CUDA {torch.cuda}"
        if torch.cuda is None:
            yield unknown("torch.driver", torch.subject, left, NO_CUDA, source)
        elif least is None:
            why = Unseen(f"no least driver is known for CUDA {torch.cuda}")
            yield unknown("torch.driver", torch.subject, left, why, source)
        else:
            yield judged(
                Version(have) >= Version(least),
                rule="torch.driver",
                subject=torch.subject,
                left=f"{left}, which wants driver {least}",
                right=f"the stack's driver is {have}",
                source=source,
                reason="CUDA driver version is insufficient for CUDA runtime version",
                hint=f"name driver {least} or later in the system's TOML",
            )


def toolkit(want: Want, facts: Facts | None) -> Iterator[Row]:  # noqa: ARG001 - as every rule
    """Where wheels are to be built, a toolkit is of torch's CUDA: torch stops on another major."""
    releases = list(want.stack.toolkit)
    for torch in torches(want):
        wheels = ", ".join(want.stack.environment[torch.environment].wheels)
        if not wheels:
            continue
        left = f"{wheels} is built for torch {torch.version} of CUDA {torch.cuda}"
        if torch.cuda is None:
            yield unknown("torch.toolkit", torch.subject, left, NO_CUDA, "stack: toolkits")
            continue
        same = [one for one in releases if one.partition(".")[0] == torch.major]
        other = f"CUDA {', '.join(same)} is of the same major: torch builds with it, and warns"
        yield judged(
            bool(same),
            rule="torch.toolkit",
            subject=torch.subject,
            left=left,
            right=f"the stack's toolkits are {', '.join(releases) or 'none'}",
            source="stack: toolkits",
            reason="The detected CUDA version mismatches the version that was used to compile "
            "PyTorch",
            hint=f"add a toolkit {torch.cuda} to the stack's toolkits",
            note="" if torch.cuda in releases else other,
        )


def architecture(want: Want, facts: Facts | None) -> Iterator[Row]:
    """torch's own kernels are for the GPUs."""
    for torch in torches(want):
        about, who = ("torch.architecture", torch.subject), f"torch {torch.version}"
        if torch.cuda is None:
            yield unknown(*about, who, NO_CUDA, "lock")
            continue
        yield from compiles_for(want, facts, about, who, torch.cuda)


def wheels(want: Want, facts: Facts | None) -> Iterator[Row]:  # noqa: ARG001 - as every rule
    """A wheel of our own is for exactly the torch of the lock."""
    for torch in torches(want):
        for wheel in want.stack.environment[torch.environment].wheels:
            label = built_for(wheel)
            needs = f"torch {label.torch} of CUDA {label.cuda}" if label else "the lock's own torch"
            yield judged(
                label is None or (label.torch, label.cuda) == (torch.version, torch.cuda),
                rule="wheel.torch",
                subject=f"{torch.environment}/{Requirement(wheel).name}",
                left=f"{wheel} is built for {needs}",
                right=f"the lock has torch {torch.version} of CUDA {torch.cuda}",
                source=f"stack: environment.{torch.environment}.wheels",
                reason="undefined symbol: torch's C++ interface differs from version to version",
                hint="name a wheel for this torch, or require the wheel's torch and lock again",
            )
