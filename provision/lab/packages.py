"""What NVIDIA's repository offers a distribution, and the kernels that the lab lends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provision.lab import driver_files as files
from provision.lab import flavours
from provision.lab.debs import Content, Package, script, text
from provision.lab.driver_debian import debian_driver
from provision.lab.driver_ubuntu import ubuntu_driver
from provision.lab.toolkits import toolkits

DRIVERS = ("580.159.04", "590.44.01", "590.48.01", "595.58.03")


def every_package(distribution: str, kernels: Sequence[str]) -> list[Package]:
    """All packages that are the same for every host; `kernels` get headers and an image."""
    found = [dkms(), *toolkits()]
    driver = ubuntu_driver if distribution in flavours.UBUNTU else debian_driver
    for version in DRIVERS:
        found += [*driver(version), _pinning(version)]
    for kernel in kernels:
        found += kernel_packages(kernel)
    return found


def dkms() -> Package:
    """The simulated DKMS; its version is above that of every real one."""
    return Package(
        name="dkms",
        version="3.99-1lab1",
        architecture="all",
        section="kernel",
        summary="Dynamic Kernel Module System",
        files={
            "usr/sbin/dkms": script(files.launcher("dkms")),
            "etc/kernel/header_postinst.d/dkms": script(files.HEADER_HOOK),
            "etc/kernel/postinst.d/dkms": script(files.HEADER_HOOK),
        },
    )


def _pinning(version: str) -> Package:
    return Package(
        name=f"nvidia-driver-pinning-{version}",
        version="1",
        architecture="all",
        summary=f"Pins the NVIDIA driver to {version}",
        provides=("nvidia-driver-pinning",),
        conflicts=("nvidia-driver-pinning",),
        files={
            f"etc/apt/preferences.d/nvidia-driver-pinning-{version}.pref": text(files.pin(version))
        },
    )


def kernel_packages(kernel: str) -> Iterator[Package]:
    """Headers and image of a kernel."""
    version = f"{kernel.partition('-')[0]}-1"
    yield Package(
        name=f"linux-headers-{kernel}",
        version=version,
        section="kernel",
        summary=f"Header files for Linux {kernel}",
        files={
            f"usr/src/linux-headers-{kernel}/Makefile": text("# simulated\n"),
            f"usr/lib/modules/{kernel}/build": Content(
                link=f"/usr/src/linux-headers-{kernel}", mode=0o777
            ),
        },
        scripts={"postinst": files.kernel_hooks(kernel, "header_postinst.d")},
    )
    yield Package(
        name=f"linux-image-{kernel}",
        version=version,
        section="kernel",
        summary=f"Linux {kernel}",
        files={
            f"boot/vmlinuz-{kernel}": text(f"simulated Linux {kernel}\n"),
            f"usr/lib/modules/{kernel}/modules.builtin": text("# simulated\n"),
        },
        scripts={"postinst": files.kernel_hooks(kernel, "postinst.d")},
    )
