"""Which kernels serve which GPUs."""

import pytest

from provision.remote.elf.archs import Arch, Capability, parse_capability
from provision.remote.elf.fatbin import Fatbin
from provision.remote.elf.kernels import lacking


def arch(word):
    return Arch(int(word.rstrip("af")), word.lstrip("0123456789"))


@pytest.mark.parametrize(
    ("word", "runs", "compiles"),
    [
        ("80", {"8.0", "8.6", "8.9"}, {"8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"}),
        ("89", {"8.9"}, {"8.9", "9.0", "10.0", "10.3", "12.0", "12.1"}),
        ("90", {"9.0"}, {"9.0", "10.0", "10.3", "12.0", "12.1"}),
        ("90a", {"9.0"}, {"9.0"}),
        ("100", {"10.0", "10.3"}, {"10.0", "10.3", "12.0", "12.1"}),
        ("100a", {"10.0"}, {"10.0"}),
        ("100f", {"10.0", "10.3"}, {"10.0", "10.3"}),
        ("120a", {"12.0"}, {"12.0"}),
        ("121", {"12.1"}, {"12.1"}),
    ],
)
def test_which_gpus_an_arch_serves(word, runs, compiles):
    gpus = ("8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")
    assert {gpu for gpu in gpus if arch(word).runs_on(parse_capability(gpu))} == runs
    assert {gpu for gpu in gpus if arch(word).compiles_for(parse_capability(gpu))} == compiles


def fatbins(*words):
    """One of each word: '80 90 ptx90'."""
    return [
        Fatbin(
            frozenset(arch(one) for one in word.split() if not one.startswith("ptx")),
            frozenset(arch(one[3:]) for one in word.split() if one.startswith("ptx")),
        )
        for word in words
    ]


VLLM = ("70 75 80 89 90 100 120", "80 ptx80", "90a", "90a 100f", "52 ptx52")
"""The kinds of fatbinaries in vLLM 0.15.1's extensions, the less common ones left out."""
OLDER = ("70 75 80 89 90 100", *VLLM[1:])


@pytest.mark.parametrize(
    ("words", "gpus", "expected"),
    [
        (["80 90 100 120"], ["12.0", "9.0"], ""),
        (["80 90"], ["12.0"], "has kernels for 80, 90, but the GPUs are 12.0"),
        (
            ["120 80"],
            ["10.0", "9.0", "12.0"],
            "has kernels for 80, 120, but the GPUs are 9.0, 10.0",
        ),
        (["90a"], ["9.0", "12.0", "12.0"], "has kernels for 90a, but the GPUs are 12.0"),
        (["80 90 ptx90"], ["12.0"], ""),
        (["80 ptx120"], ["9.0"], "has kernels for 80 and PTX for 120, but the GPUs are 9.0"),
        (["ptx90a"], ["12.0"], "has PTX for 90a, but the GPUs are 12.0"),
        (["80", "90a", "120a"], ["12.0", "9.0"], ""),
        (VLLM, ["7.0", "9.0", "10.3", "12.0"], ""),
        (
            OLDER,
            ["12.0"],
            "has kernels for 52, 70, 75, 80, 89, 90, 90a, 100, 100f, but the GPUs are 12.0",
        ),
        ([], ["12.0"], ""),
        (["80"], [], ""),
    ],
)
def test_gpus_that_a_distribution_has_no_kernels_for(words, gpus, expected):
    assert lacking(fatbins(*words), map(parse_capability, gpus)) == expected


def test_a_capability_is_written_as_nvidia_smi_does():
    assert (parse_capability("12.0"), str(Capability(12, 0))) == (Capability(12, 0), "12.0")
