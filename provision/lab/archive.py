"""The distribution's own archive: its builds of the driver, as old or as new as it keeps them."""

from __future__ import annotations

from collections.abc import Iterator

from provision.lab import driver_files as files
from provision.lab import driver_ubuntu, flavours, hardware
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
from provision.lab.packages import dkms, kernel_packages

KEYRING = "lab-archive-keyring.gpg"
DRIVERS = {
    "debian12": Parts(version="535.247.01", revision="-1~deb12u1"),
    "debian13": Parts(version="550.163.01", revision="-2"),
    "ubuntu2404": Parts(version="580.95.05", revision="-0ubuntu0.24.04.1"),
    "ubuntu2204": Parts(version="580.95.05", revision="-0ubuntu0.22.04.1"),
}
SUITES = {"debian12": ("oldstable", "bookworm"), "debian13": ("stable", "trixie")}


def about(distribution: str) -> str:
    """How the archive's Release file begins."""
    if distribution in SUITES:
        origin, (suite, codename) = "Debian", SUITES[distribution]
    else:
        origin, suite = "Ubuntu", flavours.UBUNTU[distribution].codename
        codename = suite
    return (
        f"Origin: {origin}\nLabel: {origin}\nSuite: {suite}\nCodename: {codename}\n"
        "Architectures: amd64\nDescription: simulated packages of the distribution\n"
    )


def every_package(distribution: str) -> list[Package]:
    """The archive's driver, and what it is built with."""
    parts = DRIVERS[distribution]
    found = [dkms()]
    for name in hardware.every_kernel():
        found += kernel_packages(flavours.kernel(distribution, name))
    if distribution in flavours.UBUNTU:
        branch = parts.version.partition(".")[0]
        modprobe = "NVIDIA module and device node loader"
        found += driver_ubuntu.packages(parts, branch)
        found.append(parts.package("nvidia-modprobe", modprobe, content=MODPROBE))
    else:
        found += _debian(parts)
    return found


def _debian(parts: Parts) -> Iterator[Package]:
    """Debian's own shape: the module is `nvidia-current`, libraries lie aside of their links."""
    package, version = parts.package, parts.version
    for name, stem, needs in (
        ("libcuda1", "libcuda", ("libnvidia-ptxjitcompiler1",)),
        ("libnvidia-ml1", "libnvidia-ml", ()),
        ("libnvidia-ptxjitcompiler1", "libnvidia-ptxjitcompiler", ()),
        ("libnvidia-cfg1", "libnvidia-cfg", ()),
    ):
        yield package(
            name,
            f"NVIDIA {stem} library",
            needs=needs,
            others=("nvidia-alternative",),
            content=parts.libraries(stem, aside="nvidia/current/"),
        )
    yield package(
        "nvidia-driver",
        "NVIDIA metapackage",
        needs=("nvidia-driver-libs", "nvidia-driver-bin", "nvidia-alternative"),
        others=(f"nvidia-kernel-dkms (= {parts.deb}) | nvidia-kernel-{version}", "nvidia-support"),
        recommends=("nvidia-smi", "nvidia-persistenced", "libcuda1", "libnvidia-cfg1"),
    )
    yield package(
        "nvidia-driver-libs", "NVIDIA metapackage (OpenGL libraries)", needs=("libnvidia-cfg1",)
    )
    yield package("nvidia-driver-bin", "NVIDIA driver support binaries")
    yield package("nvidia-support", "NVIDIA binary graphics driver support files")
    yield package("nvidia-installer-cleanup", "cleanup after a driver of the nvidia-installer")
    yield package(
        "nvidia-alternative",
        "allows the selection of NVIDIA as GLX provider",
        others=("nvidia-installer-cleanup",),
        provides=(f"nvidia-alternative--kmod-alias-{version}",),
    )
    yield package(
        "nvidia-smi",
        "NVIDIA System Management Interface",
        needs=("libnvidia-ml1",),
        others=("nvidia-alternative",),
        content=SMI,
    )
    yield package(
        "nvidia-kernel-support",
        "NVIDIA binary kernel module support files",
        others=("nvidia-modprobe", "firmware-nvidia-gsp", "nvidia-alternative"),
        content=OPTIONS,
    )
    yield package(
        "firmware-nvidia-gsp", "firmware for the NVIDIA GSP", content=parts.firmware(version)
    )
    for name, other, licence in (
        ("nvidia-kernel-dkms", "nvidia-open-kernel-dkms", PROPRIETARY),
        ("nvidia-open-kernel-dkms", "nvidia-kernel-dkms", OPEN),
    ):
        yield package(
            name,
            f"NVIDIA kernel module DKMS source ({licence})",
            others=("dkms", f"nvidia-kernel-support (= {parts.deb})", "nvidia-installer-cleanup"),
            provides=(f"nvidia-kernel-{version}",),
            conflicts=(other,),
            content=parts.source(licence, "nvidia-current"),
            scripts=files.dkms_scripts(version, "nvidia-current"),
            section="kernel",
        )
    yield package("nvidia-modprobe", "load the NVIDIA kernel driver", content=MODPROBE)
    yield package(
        "nvidia-persistenced",
        "daemon to maintain persistent software state in the NVIDIA driver",
        others=("libnvidia-cfg1",),
        content=daemon("nvidia-persistenced", "nvidia-persistenced"),
        scripts=files.unit_scripts("nvidia-persistenced", start=True),
    )
