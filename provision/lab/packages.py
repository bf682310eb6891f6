"""The drivers and toolkits that the lab's repository offers, in the shape NVIDIA gives Debian."""

from __future__ import annotations

from collections.abc import Iterator

from provision.lab import driver_files as files
from provision.lab.debs import Content, Package, script, text

DRIVERS = ("580.159.04", "590.44.01", "590.48.01", "595.58.03")
TOOLKITS = {
    "12.8": {"12.8.0-1": "12.8.61", "12.8.1-1": "12.8.93", "12.8.2-1": "12.8.128"},
    "13.1": {"13.1.0-1": "13.1.80", "13.1.1-1": "13.1.115"},
}
"""Toolkit → package version → nvcc's own version."""

LIBRARIES = "usr/lib/x86_64-linux-gnu"


def every_package(kernels: list[str]) -> list[Package]:
    """All packages that are the same for every host; `kernels` get headers and an image."""
    found = [*_common()]
    for driver in DRIVERS:
        found += _driver(driver)
    for toolkit, releases in TOOLKITS.items():
        for version, compiler in releases.items():
            found += _toolkit(toolkit, version, compiler)
    for kernel in kernels:
        found += _kernel(kernel)
    return found


def _common() -> Iterator[Package]:
    yield Package(
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
    yield Package(
        name="cuda-toolkit-config-common",
        version="13.1.115-1",
        architecture="all",
        summary="Common config package for CUDA Toolkit",
        files={
            "etc/ld.so.conf.d/000_cuda.conf": text("/usr/local/cuda/targets/x86_64-linux/lib\n")
        },
    )
    yield Package(
        name="cuda",
        version="13.1.1-1",
        section="devel",
        summary="CUDA meta-package: toolkit and driver",
        depends=("cuda-toolkit-13-1 (>= 13.1.1)", "cuda-drivers"),
    )


def _driver(version: str) -> Iterator[Package]:
    deb = f"{version}-1"

    def package(
        name: str,
        summary: str,
        *,
        needs: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        provides: tuple[str, ...] = (),
        conflicts: tuple[str, ...] = (),
        content: dict[str, Content] | None = None,
        scripts: dict[str, str] | None = None,
        section: str = "libs",
    ) -> Package:
        return Package(
            name=name,
            version=deb,
            summary=summary,
            depends=(*(f"{need} (= {deb})" for need in needs), *others),
            provides=provides,
            conflicts=conflicts,
            replaces=conflicts,
            files=content or {},
            scripts=scripts or {},
            section=section,
        )

    def library(name: str, stem: str, *others: str) -> Package:
        return package(
            name,
            f"NVIDIA {stem} runtime library",
            needs=others,
            content={
                f"{LIBRARIES}/{stem}.so.{version}": text(f"simulated {stem} {version}\n"),
                f"{LIBRARIES}/{stem}.so.1": Content(link=f"{stem}.so.{version}", mode=0o777),
            },
        )

    yield library("libcuda1", "libcuda", "libnvidia-ptxjitcompiler1")
    yield library("libnvidia-ml1", "libnvidia-ml")
    yield library("libnvidia-ptxjitcompiler1", "libnvidia-ptxjitcompiler")
    yield library("libnvidia-cfg1", "libnvidia-cfg")
    yield package(
        "nvidia-open",
        "NVIDIA driver with open kernel modules, meta-package",
        needs=("nvidia-driver-cuda", "nvidia-kernel-open-dkms"),
        section="metapackages",
    )
    yield package(
        "cuda-drivers",
        "CUDA driver meta-package",
        needs=("nvidia-driver-cuda",),
        others=(f"nvidia-kernel-open-dkms (= {deb}) | nvidia-kernel-dkms (= {deb})",),
        section="metapackages",
    )
    yield package(
        "nvidia-driver-cuda",
        "NVIDIA driver, compute only",
        needs=("libcuda1", "libnvidia-ml1", "libnvidia-cfg1", "nvidia-kernel-support"),
        others=("nvidia-modprobe", "nvidia-persistenced"),
        content={"usr/bin/nvidia-smi": script(files.launcher("smi"))},
    )
    yield package(
        "nvidia-kernel-support",
        "NVIDIA kernel module support files",
        needs=("firmware-nvidia-gsp",),
        content={"etc/modprobe.d/nvidia.conf": text("# simulated: no options\n")},
    )
    yield package(
        "firmware-nvidia-gsp",
        "NVIDIA GSP firmware",
        content={
            f"usr/lib/firmware/nvidia/{version}/gsp_{chip}.bin": text(f"simulated {version}\n")
            for chip in ("ga10x", "tu10x")
        },
    )
    for name, other, licence in (
        ("nvidia-kernel-open-dkms", "nvidia-kernel-dkms", "Dual MIT/GPL"),
        ("nvidia-kernel-dkms", "nvidia-kernel-open-dkms", "NVIDIA"),
    ):
        yield package(
            name,
            f"NVIDIA kernel module source ({licence})",
            needs=("nvidia-kernel-support",),
            others=("dkms",),
            provides=(f"nvidia-kernel-{version}",),
            conflicts=(other,),
            content={
                f"usr/src/nvidia-{version}/dkms.conf": text(files.dkms_conf(version)),
                f"usr/src/nvidia-{version}/license": text(f"{licence}\n"),
            },
            scripts=files.dkms_scripts(version),
            section="kernel",
        )
    yield package(
        "nvidia-modprobe",
        "NVIDIA module and device node loader",
        content={"usr/bin/nvidia-modprobe": script(files.launcher("nvidia_modprobe"))},
    )
    for name, starter in (
        ("nvidia-persistenced", files.PERSISTENCED),
        ("nvidia-fabricmanager", files.FABRICMANAGER),
        ("nvidia-imex", files.IMEX),
    ):
        program = {"nvidia-fabricmanager": "nv-fabricmanager"}.get(name, name)
        yield package(
            name,
            f"NVIDIA daemon {name}",
            needs=("libnvidia-cfg1",) if name == "nvidia-persistenced" else (),
            content={
                f"usr/bin/{program}": script(starter),
                f"usr/lib/systemd/system/{name}.service": text(files.unit(name, program)),
            },
            scripts=files.unit_scripts(name, start=name == "nvidia-persistenced"),
        )
    yield Package(
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


def _toolkit(toolkit: str, version: str, compiler: str) -> Iterator[Package]:
    dashed = toolkit.replace(".", "-")
    root = f"usr/local/cuda-{toolkit}"
    common = f"cuda-toolkit-{dashed}-config-common"

    def package(
        name: str,
        summary: str,
        *depends: str,
        content: dict[str, Content] | None = None,
        scripts: dict[str, str] | None = None,
        architecture: str = "amd64",
        meta: bool = False,
    ) -> Package:
        return Package(
            name=name,
            version=version if meta else f"{compiler}-1",
            architecture=architecture,
            section="devel",
            summary=summary,
            depends=depends,
            files=content or {},
            scripts=scripts or {},
        )

    yield package(
        f"cuda-toolkit-{dashed}",
        f"CUDA Toolkit {toolkit} meta-package",
        f"cuda-nvcc-{dashed} (>= {compiler})",
        f"cuda-cudart-dev-{dashed} (>= {compiler})",
        common,
        content={f"{root}/version.json": text(files.version_json(version, compiler))},
        meta=True,
    )
    yield package(
        f"cuda-nvcc-{dashed}",
        f"CUDA {toolkit} compiler",
        f"cuda-cudart-dev-{dashed}",
        common,
        content={f"{root}/bin/nvcc": script(files.nvcc(toolkit, compiler))},
    )
    yield package(
        f"cuda-cudart-dev-{dashed}",
        f"CUDA {toolkit} runtime, headers",
        f"cuda-cudart-{dashed} (>= {compiler})",
        content={
            f"{root}/targets/x86_64-linux/include/cuda_runtime.h": text("/* simulated */\n"),
            f"{root}/include": Content(link="targets/x86_64-linux/include", mode=0o777),
            f"{root}/lib64": Content(link="targets/x86_64-linux/lib", mode=0o777),
        },
    )
    soname = f"libcudart.so.{toolkit.partition('.')[0]}"
    yield package(
        f"cuda-cudart-{dashed}",
        f"CUDA {toolkit} runtime",
        common,
        content={
            f"{root}/targets/x86_64-linux/lib/libcudart.so.{compiler}": text("simulated\n"),
            f"{root}/targets/x86_64-linux/lib/{soname}": Content(
                link=f"libcudart.so.{compiler}", mode=0o777
            ),
        },
    )
    yield package(
        common,
        f"Config package for CUDA Toolkit {toolkit}",
        "cuda-toolkit-config-common",
        scripts=files.alternatives(toolkit),
        architecture="all",
    )
    yield package(
        f"cuda-runtime-{dashed}",
        f"CUDA {toolkit} runtime meta-package: libraries and driver",
        f"cuda-cudart-{dashed} (>= {compiler})",
        "cuda-drivers",
        meta=True,
    )


def _kernel(kernel: str) -> Iterator[Package]:
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
