"""The driver in Ubuntu's shape, as NVIDIA's repository and Ubuntu's own archive package it.

Up to 580 the names carry the branch (`libnvidia-compute-580`); from 590 on NVIDIA's don't, and its
packages replace those of a branch. A branch has its persistence daemon in `nvidia-compute-utils`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from provision.lab import driver_files as files
from provision.lab.debs import Content, Package, text
from provision.lab.driver_parts import MODPROBE, OPEN, PROPRIETARY, SMI, Parts, daemon

BRANCHES = ("570", "580")
"""The branches whose names NVIDIA's packages without a branch replace."""


def ubuntu_driver(version: str) -> Iterator[Package]:
    """Every package of one driver in NVIDIA's repository."""
    major = int(version.partition(".")[0])
    parts = Parts(version=version, revision="-0ubuntu1" if major < 595 else "-1ubuntu1")
    branch = str(major) if major < 590 else ""
    yield from packages(parts, branch)
    yield parts.package("nvidia-modprobe", "NVIDIA module and device node loader", content=MODPROBE)
    mark = f"-{branch}" if branch else ""
    if not branch:
        yield parts.package(
            "nvidia-persistenced",
            "NVIDIA daemon nvidia-persistenced",
            needs=("libnvidia-cfg1",),
            conflicts=tuple(f"nvidia-compute-utils-{old}" for old in BRANCHES),
            content=daemon("nvidia-persistenced", "nvidia-persistenced"),
            scripts=files.unit_scripts("nvidia-persistenced", start=True),
        )
    else:
        yield parts.package(
            "nvidia-open",
            "NVIDIA driver with open kernel modules, meta-package",
            needs=(f"nvidia-open-{branch}",),
            section="metapackages",
        )
    yield parts.package(
        f"nvidia-open{mark}",
        "NVIDIA driver with open kernel modules, meta-package",
        needs=(f"nvidia-driver{mark}-open",),
        section="metapackages",
    )
    either = f"nvidia-driver{mark} (= {parts.deb}) | nvidia-driver{mark}-open (= {parts.deb})"
    yield parts.package(
        "cuda-drivers", "CUDA driver meta-package", others=(either,), section="metapackages"
    )


def packages(parts: Parts, branch: str) -> Iterator[Package]:
    """What both repositories package: with a branch in the names, or without."""
    names = _Names(parts=parts, branch=branch)
    package, name = names.package, names.name
    firmware = f"nvidia-firmware-{branch}-{parts.version}" if branch else "nvidia-firmware"
    yield package(
        "libnvidia-compute",
        "NVIDIA libcompute package",
        content=parts.libraries("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"),
    )
    yield package(
        "libnvidia-cfg1", "NVIDIA OpenGL/GLX config", content=parts.libraries("libnvidia-cfg")
    )
    yield package(
        "nvidia-utils", "NVIDIA driver support binaries", needs=("libnvidia-compute",), content=SMI
    )
    yield package(
        "nvidia-compute-utils",
        "NVIDIA compute utilities",
        needs=("libnvidia-compute", "libnvidia-cfg1"),
        content=daemon("nvidia-persistenced", "nvidia-persistenced") if branch else {},
        scripts=files.unit_scripts("nvidia-persistenced", start=True) if branch else {},
    )
    yield parts.package(firmware, "NVIDIA GSP firmware", content=parts.firmware(parts.version))
    yield package(
        "nvidia-kernel-common",
        "Shared files used with the kernel module",
        others=(f"{firmware} (= {parts.deb})",),
        content={"usr/lib/modprobe.d/nvidia-kernel-common.conf": text("# simulated\n")},
    )
    for tail, licence, other in (("-open", OPEN, ""), ("", PROPRIETARY, "-open")):
        yield package(
            "nvidia-kernel-source",
            f"NVIDIA kernel source ({licence})",
            tail=tail,
            against=(name("nvidia-kernel-source", other),),
            content=parts.source(licence),
        )
        yield package(
            "nvidia-dkms",
            f"NVIDIA DKMS package ({licence})",
            tail=tail,
            needs=("nvidia-kernel-common",),
            others=(f"{name('nvidia-kernel-source', tail)} (= {parts.deb})", "dkms"),
            against=(name("nvidia-dkms", other),),
            scripts=files.dkms_scripts(parts.version),
        )
        yield package(
            "nvidia-headless",
            f"NVIDIA headless metapackage ({licence})",
            tail=tail,
            needs=("libnvidia-compute", "libnvidia-cfg1", "nvidia-compute-utils"),
            others=(f"{name('nvidia-dkms', tail)} (= {parts.deb})",),
        )
        yield package(
            "nvidia-driver",
            f"NVIDIA driver metapackage ({licence})",
            tail=tail,
            needs=("libnvidia-compute", "libnvidia-cfg1", "nvidia-compute-utils", "nvidia-utils"),
            others=(f"{name('nvidia-dkms', tail)} (= {parts.deb})", "nvidia-modprobe"),
        )
    for unit, program in (
        ("nvidia-fabricmanager", "nv-fabricmanager"),
        ("nvidia-imex", "nvidia-imex"),
    ):
        yield package(
            unit,
            f"NVIDIA daemon {unit}",
            content=daemon(unit, program),
            scripts=files.unit_scripts(unit, start=False),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Names:
    """Names with the branch in them, and whom a package can't stand beside."""

    parts: Parts
    branch: str

    def name(self, stem: str, tail: str = "") -> str:
        return f"{stem}-{self.branch}{tail}" if self.branch else f"{stem}{tail}"

    def package(
        self,
        stem: str,
        summary: str,
        *,
        tail: str = "",
        needs: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        against: tuple[str, ...] = (),
        content: dict[str, Content] | None = None,
        scripts: dict[str, str] | None = None,
    ) -> Package:
        """As in `Parts`; `needs` are stems here, and `against` adds to the conflicts."""
        plain = f"{stem}{tail}"
        branches = tuple(f"{stem}-{branch}{tail}" for branch in BRANCHES)
        return self.parts.package(
            self.name(stem, tail),
            summary,
            needs=tuple(self.name(need) for need in needs),
            others=others,
            provides=(plain,) if self.branch else (),
            conflicts=((plain,) if self.branch else branches) + against,
            content=content,
            scripts=scripts,
        )
