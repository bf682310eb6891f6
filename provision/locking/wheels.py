"""What a wheel of our own was built for, as its local version says: 2.8.3+cu128torch2.9.1."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.requirements import Requirement

LABEL = re.compile(r"==[^+]+\+cu(\d+)(\d)torch(\d+\.\d+\.\d+)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltFor:
    """The torch, of one CUDA, whose C++ interface the wheel was compiled against."""

    torch: str
    cuda: str
    """Such as 12.8."""


def built_for(wheel: str) -> BuiltFor | None:
    """None where the requirement names no local version of ours."""
    label = LABEL.search(str(Requirement(wheel).specifier))
    return BuiltFor(torch=label[3], cuda=f"{label[1]}.{label[2]}") if label else None
