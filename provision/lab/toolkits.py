"""The CUDA toolkits that NVIDIA's repository offers: the same packages for every distribution."""

from __future__ import annotations

from collections.abc import Iterator

from provision.lab import driver_files as files
from provision.lab.debs import Content, Package, script, text

TOOLKITS = {
    "12.8": {"12.8.0-1": "12.8.61", "12.8.1-1": "12.8.93", "12.8.2-1": "12.8.128"},
    "13.1": {"13.1.0-1": "13.1.80", "13.1.1-1": "13.1.115"},
}
"""Toolkit → package version → nvcc's own version."""


def toolkits() -> Iterator[Package]:
    """Every release of every toolkit, and what they share."""
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
    for toolkit, releases in TOOLKITS.items():
        for version, compiler in releases.items():
            yield from _toolkit(toolkit, version, compiler)


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
