"""What GPUs did when they were made to work: the trials' JSON as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass as plain
from typing import Any

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from provision.facts import Absent, Unknown, WrongFacts, answer
from provision.facts.kinds import Float, Int
from provision.facts.nvidia import Gpu


@plain(frozen=True, slots=True)
class Hung:
    """It gave no answer and was ended; GPUs may be stuck."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    gpu: Int
    exact: bool
    """A sum of integers is what it must be."""
    error: Float
    """Largest relative error of a product of matrices in float32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bandwidth:
    gpu: Int
    to_gpu: Float
    """GB/s (10^9 bytes) from pinned host memory."""
    to_host: Float


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    gpu: Int
    to: Int
    peer: bool
    """CUDA lets the one access the other's memory."""
    intact: bool
    gb_s: Float


@dataclass(frozen=True, kw_only=True, slots=True)
class AllReduce:
    gpus: Int
    right: bool
    latency_us: Float
    """Of 12 KiB inside a CUDA graph."""
    bus_gb_s: Float
    """Bus bandwidth at 256 MiB, as nccl-tests define it."""
    nccl: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    error: Float
    """Largest distance from float64."""
    plain_error: Float
    """The same of torch's own operations in the same precision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    version: str
    cuda: bool
    device: str


@plain(frozen=True, kw_only=True, slots=True)
class Trials:
    """Each trial's outcome, and the GPUs afterwards."""

    kernel: list[Kernel] | Absent | Unknown | Hung
    bandwidth: list[Bandwidth] | Absent | Unknown | Hung
    p2p: list[Copy] | Absent | Unknown | Hung
    allreduce: AllReduce | Absent | Unknown | Hung
    allreduce_host: AllReduce | Absent | Unknown | Hung
    """Without peer-to-peer access."""
    flash_attn: Attention | Absent | Unknown | Hung
    vllm: Server | Absent | Unknown | Hung
    after: list[Gpu] | Absent | Unknown | Hung


TYPES: dict[str, TypeAdapter[Any]] = {
    "kernel": TypeAdapter(list[Kernel]),
    "bandwidth": TypeAdapter(list[Bandwidth]),
    "p2p": TypeAdapter(list[Copy]),
    "allreduce": TypeAdapter(AllReduce),
    "allreduce_host": TypeAdapter(AllReduce),
    "flash_attn": TypeAdapter(Attention),
    "vllm": TypeAdapter(Server),
    "after": TypeAdapter(list[Gpu]),
}


def parse(raw: Mapping[str, Any]) -> Trials:
    """Read the trials' JSON. Raises WrongFacts naming what is not of the expected shape."""
    said = raw.get("trials")
    if not isinstance(said, Mapping):
        raise WrongFacts("trials: expected a mapping of trials")
    answers = {**said, "after": raw.get("after")}
    return Trials(**{name: _outcome(name, answers.get(name)) for name in TYPES})


def _outcome(name: str, raw: Any) -> Any:  # noqa: ANN401 - of each type
    if isinstance(raw, Mapping) and raw.get("status") == "hung":
        return Hung(" ".join(str(raw.get("reason", "")).split()))
    return answer(name, TYPES[name], raw)
