"""Which GPUs a kernel runs on, by compute capability.

CUDA C++ Programming Guide, "Binary Compatibility", "PTX Compatibility" and "Family-Specific".
"""

from __future__ import annotations

from typing import NamedTuple


class Capability(NamedTuple):
    """A GPU's compute capability: 12.0."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Arch(NamedTuple):
    """What a kernel was compiled for: 90, 90a, 100f."""

    number: int
    only: str = ""
    """`a` for this very capability, `f` for its family, '' for all that follow it."""

    def __str__(self) -> str:
        return f"{self.number}{self.only}"

    def runs_on(self, gpu: Capability) -> bool:
        """Machine code of this arch does: from its minor version on, within the major one."""
        own = Capability(*divmod(self.number, 10))
        if self.only == "a":
            return gpu == own
        return gpu.major == own.major and gpu.minor >= own.minor

    def compiles_for(self, gpu: Capability) -> bool:
        """The driver can make machine code of this arch's PTX: for all later GPUs."""
        if self.only:
            return self.runs_on(gpu)
        return gpu >= Capability(*divmod(self.number, 10))


def parse_capability(text: str) -> Capability:
    """A compute capability as nvidia-smi writes it."""
    major, minor = text.split(".")
    return Capability(int(major), int(minor))
