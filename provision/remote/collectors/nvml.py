"""Whether the driver's own tool reaches the driver, and what it says when not."""

from __future__ import annotations

from typing import Any

from provision.remote.collectors import nvidia_smi
from provision.remote.command import Output
from provision.remote.probe import Query

NAME = "nvml"


def collect(_query: Query) -> dict[str, Any]:
    return parse_nvml(nvidia_smi.query())


def parse_nvml(said: Output) -> dict[str, Any]:
    """Exit status, complaint and driver; "No devices were found" comes without XML."""
    answered = said.exit == 0 and "<nvidia_smi_log" in said.out
    return {
        "exit": said.exit,
        "message": "" if answered else nvidia_smi.message(said),
        "driver": nvidia_smi.driver_version(said.out),
        "cuda": nvidia_smi.cuda_version(said.out),
    }
