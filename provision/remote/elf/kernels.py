"""Whether a distribution's kernels, taken together, serve the GPUs that there are.

A single extension may well be for other GPUs: vLLM has FlashAttention 3 for 9.0a in one, FlashMLA
for 9.0a and 10.0f in another, and uses neither elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from provision.remote.elf.archs import Arch, Capability
from provision.remote.elf.fatbin import Fatbin


def lacking(fatbins: Iterable[Fatbin], gpus: Iterable[Capability]) -> str:
    """Why some of the GPUs are not served, in words that follow a name; '' when all are."""
    fatbins = frozenset(fatbins)
    cubins = frozenset(arch for fatbin in fatbins for arch in fatbin.cubins)
    ptx = _general(fatbins)
    unserved = sorted(
        gpu
        for gpu in set(gpus)
        if not any(arch.runs_on(gpu) for arch in cubins)
        and not any(arch.compiles_for(gpu) for arch in ptx)
    )
    if not fatbins or not unserved:
        return ""
    there = [f"kernels for {_listed(cubins)}"] if cubins else []
    there += [f"PTX for {_listed(ptx)}"] if ptx else []
    missing = ", ".join(map(str, unserved))
    return f"has {' and '.join(there)}, but the GPUs are {missing}"


def _general(fatbins: frozenset[Fatbin]) -> frozenset[Arch]:
    """PTX of the source files that were compiled for the most archs.

    Those are the ones for all GPUs. PTX elsewhere says nothing of the whole: vLLM has some for 8.0
    in its Marlin kernels alone, and for 5.2 in a file without a kernel.
    """
    width = max((len(fatbin.cubins | fatbin.ptx) for fatbin in fatbins), default=0)
    widest = [fatbin for fatbin in fatbins if len(fatbin.cubins | fatbin.ptx) == width]
    return frozenset(arch for fatbin in widest for arch in fatbin.ptx)


def _listed(archs: Iterable[Arch]) -> str:
    return ", ".join(map(str, sorted(archs)))
