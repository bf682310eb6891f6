"""A CUDA toolkit out of Python packages: what makes CUDA_HOME of an environment that holds them.

    cuda-toolkit[nvcc,cudart,cccl]==13.1.*    0.3 GB; it pins its parts to one release
    ninja

All parts come through `cuda-toolkit`: `nvidia-cuda-nvcc==13.1.*` alone takes newer parts of other
packages, and they don't work together (`Unsupported .version`). nvcc and cicc find each other and
the host's `g++` (up to 15) without further flags.
"""

from __future__ import annotations

from pathlib import Path


def cuda_home(environment: Path) -> Path:
    """The toolkit in an environment: `lib/python3.N/site-packages/nvidia/cu13`.

    Adds the links that linking with `-L$CUDA_HOME/lib64 -lcudart` needs and the packages leave
    out; doing it again changes nothing. Raises FileNotFoundError when nvcc or cudart is not there.
    """
    for nvcc in sorted(environment.glob("lib/python3.*/site-packages/nvidia/cu*/bin/nvcc")):
        home = nvcc.parent.parent
        for runtime in home.glob("lib/libcudart.so.[0-9]*"):
            _link(home / "lib64", "lib")
            _link(home / "lib" / "libcudart.so", runtime.name)
            return home
    raise FileNotFoundError(
        f"{environment}: no CUDA toolkit in it: install cuda-toolkit[nvcc,cudart,cccl] there"
    )


def _link(link: Path, target: str) -> None:
    if not link.is_symlink():
        link.symlink_to(target)
