"""What a Debian root is dressed as: itself, or an Ubuntu release.

A flavour changes what says "Ubuntu": os-release, kernel names, and the packages that bear NVIDIA's
names. Below it stays Debian, with Debian's Python: 3.13 on trixie (the base of `ubuntu2404`, whose
own is 3.12), 3.11 on bookworm (the base of `ubuntu2204`, whose own is 3.10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from provision.lab.hardware import Hardware

Suite = Literal["bookworm", "trixie"]
Flavour = Literal["debian", "ubuntu2404", "ubuntu2204"]

DISTRIBUTIONS = {"bookworm": "debian12", "trixie": "debian13"}
"""Suite → what NVIDIA calls it."""

MARK = "lab flavour of Debian"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ubuntu:
    """What tells an Ubuntu release from Debian."""

    suite: Suite
    version: str
    full: str
    codename: str
    name: str
    kernel: str


UBUNTU = {
    "ubuntu2404": Ubuntu(
        suite="trixie",
        version="24.04",
        full="24.04.3 LTS",
        codename="noble",
        name="Noble Numbat",
        kernel="6.8.0-{}-generic",
    ),
    "ubuntu2204": Ubuntu(
        suite="bookworm",
        version="22.04",
        full="22.04.5 LTS",
        codename="jammy",
        name="Jammy Jellyfish",
        kernel="5.15.0-{}-generic",
    ),
}


def default_suite(flavour: Flavour) -> Suite:
    """The Debian suite that a flavour stands on unless another one is asked for."""
    return "bookworm" if flavour == "debian" else UBUNTU[flavour].suite


def distribution(flavour: str, suite: str) -> str:
    """NVIDIA's name for what the host says it is."""
    return DISTRIBUTIONS[suite] if flavour == "debian" else flavour


def distributions() -> list[str]:
    """Everything that a lab host can say it is."""
    return [*DISTRIBUTIONS.values(), *UBUNTU]


def os_release(flavour: str) -> str:
    """The os-release of an Ubuntu flavour; '' where Debian's own stays."""
    if flavour == "debian":
        return ""
    release = UBUNTU[flavour]
    return (
        f'PRETTY_NAME="Ubuntu {release.full} ({MARK})"\nNAME="Ubuntu"\n'
        f'VERSION_ID="{release.version}"\nVERSION="{release.full} ({release.name})"\n'
        f"VERSION_CODENAME={release.codename}\nID=ubuntu\nID_LIKE=debian\n"
        f"UBUNTU_CODENAME={release.codename}\n"
    )


def kernel(distribution: str, name: str) -> str:
    """A description's kernel under the distribution's own name: 6.12.90-lab-amd64 of Ubuntu 24.04
    is 6.8.0-90-generic."""
    if distribution not in UBUNTU:
        return name
    number = name.partition("-")[0].rpartition(".")[2]
    return UBUNTU[distribution].kernel.format(number)


def dressed(machine: Hardware, distribution: str) -> Hardware:
    """The hardware with the kernels that the distribution would bring."""
    kernels = machine.kernels
    return machine.model_copy(
        update={
            "kernels": kernels.model_copy(
                update={
                    "running": kernel(distribution, kernels.running),
                    "installed": tuple(kernel(distribution, name) for name in kernels.installed),
                    "offered": tuple(kernel(distribution, name) for name in kernels.offered),
                }
            )
        }
    )
