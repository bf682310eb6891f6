"""The driver in the shape that NVIDIA's repository gives Debian."""

from __future__ import annotations

from collections.abc import Iterator

from provision.lab import driver_files as files
from provision.lab.debs import Package
from provision.lab.driver_parts import (
    MODPROBE,
    OPEN,
    OPTIONS,
    PROPRIETARY,
    SMI,
    Parts,
    daemon,
)


def debian_driver(version: str) -> Iterator[Package]:
    """Every package of one driver."""
    parts = Parts(version=version, revision="-1")
    package = parts.package
    for name, stem, others in (
        ("libcuda1", "libcuda", ("libnvidia-ptxjitcompiler1",)),
        ("libnvidia-ml1", "libnvidia-ml", ()),
        ("libnvidia-ptxjitcompiler1", "libnvidia-ptxjitcompiler", ()),
        ("libnvidia-cfg1", "libnvidia-cfg", ()),
    ):
        summary = f"NVIDIA {stem} runtime library"
        yield package(name, summary, needs=others, content=parts.libraries(stem))
    yield package(
        "nvidia-open",
        "NVIDIA driver with open kernel modules, meta-package",
        needs=("nvidia-driver-cuda", "nvidia-kernel-open-dkms"),
        section="metapackages",
    )
    either = f"nvidia-kernel-open-dkms (= {parts.deb}) | nvidia-kernel-dkms (= {parts.deb})"
    yield package(
        "cuda-drivers",
        "CUDA driver meta-package",
        needs=("nvidia-driver-cuda",),
        others=(either,),
        section="metapackages",
    )
    yield package(
        "nvidia-driver-cuda",
        "NVIDIA driver, compute only",
        needs=("libcuda1", "libnvidia-ml1", "libnvidia-cfg1", "nvidia-kernel-support"),
        others=("nvidia-modprobe", "nvidia-persistenced"),
        conflicts=("nvidia-smi",),  # of Debian's own archive: the same file
        content=SMI,
    )
    yield package(
        "nvidia-kernel-support",
        "NVIDIA kernel module support files",
        needs=("firmware-nvidia-gsp",),
        content=OPTIONS,
    )
    yield package("firmware-nvidia-gsp", "NVIDIA GSP firmware", content=parts.firmware(version))
    for name, other, licence in (
        ("nvidia-kernel-open-dkms", "nvidia-kernel-dkms", OPEN),
        ("nvidia-kernel-dkms", "nvidia-kernel-open-dkms", PROPRIETARY),
    ):
        yield package(
            name,
            f"NVIDIA kernel module source ({licence})",
            needs=("nvidia-kernel-support",),
            others=("dkms",),
            provides=(f"nvidia-kernel-{version}",),
            conflicts=(other, "nvidia-open-kernel-dkms"),
            content=parts.source(licence),
            scripts=files.dkms_scripts(version),
            section="kernel",
        )
    yield package("nvidia-modprobe", "NVIDIA module and device node loader", content=MODPROBE)
    for name, program in (
        ("nvidia-persistenced", "nvidia-persistenced"),
        ("nvidia-fabricmanager", "nv-fabricmanager"),
        ("nvidia-imex", "nvidia-imex"),
    ):
        starts = name == "nvidia-persistenced"
        yield package(
            name,
            f"NVIDIA daemon {name}",
            needs=("libnvidia-cfg1",) if starts else (),
            content=daemon(name, program),
            scripts=files.unit_scripts(name, start=starts),
        )
