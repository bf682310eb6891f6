"""Makes GPUs work, one trial a process: `python script.py TRIAL`; prints one line of JSON.

Run on hosts by an environment's own interpreter, with the torch that is there and nothing else.
A trial whose library is missing prints {"absent": reason}.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MIB = 2**20
SIZE = 256 * MIB
"""Bytes of a large message, as nccl-tests' customary largest."""
SMALL = 12288
"""Bytes of a small one: a hidden state of 6144 values in bf16, as tensor parallelism sends."""
ROUNDS = 10
IN_GRAPH = 20
REPLAYS = 50


def kernel() -> object:
    """A sum that is exact and a product that is nearly so, on every GPU."""
    import torch

    rows = []
    for index in range(torch.cuda.device_count()):
        device = torch.device("cuda", index)
        numbers = torch.arange(MIB, device=device, dtype=torch.int64)
        exact = int((2 * numbers).sum()) == MIB * (MIB - 1)
        generator = torch.Generator().manual_seed(index)
        left = torch.randn(512, 512, generator=generator)
        right = torch.randn(512, 512, generator=generator)
        product = (left.to(device) @ right.to(device)).cpu().double()
        wanted = left.double() @ right.double()
        error = float((product - wanted).abs().max() / wanted.abs().max())
        rows.append({"gpu": index, "exact": exact, "error": error})
    return rows


def bandwidth() -> object:
    """GB/s (10^9 bytes) between pinned host memory and every GPU, one after the other."""
    import torch

    host = torch.empty(SIZE, dtype=torch.uint8).pin_memory()
    rows = []
    for index in range(torch.cuda.device_count()):
        with torch.cuda.device(index):
            there = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
            up = _seconds(partial(there.copy_, host, non_blocking=True))
            down = _seconds(partial(host.copy_, there, non_blocking=True))
        rows.append({"gpu": index, "to_gpu": SIZE / up / 1e9, "to_host": SIZE / down / 1e9})
        del there
        torch.cuda.empty_cache()
    return rows


def p2p() -> object:
    """What each GPU copies to each other arrives, and how fast."""
    import torch

    size = 64 * MIB
    rows = []
    count = torch.cuda.device_count()
    for one in range(count):
        pattern = torch.arange(size // 4, dtype=torch.int32, device=f"cuda:{one}") * (one + 1)
        for other in range(count):
            if one == other:
                continue
            with torch.cuda.device(one):
                there = torch.zeros(size // 4, dtype=torch.int32, device=f"cuda:{other}")
                taken = _seconds(partial(there.copy_, pattern))
                torch.cuda.synchronize(other)
            rows.append(
                {
                    "gpu": one,
                    "to": other,
                    "peer": bool(torch.cuda.can_device_access_peer(one, other)),
                    "intact": bool(torch.equal(there.cpu(), pattern.cpu())),
                    "gb_s": size / taken / 1e9,
                }
            )
            del there
    return rows


def allreduce() -> object:
    """All GPUs at once, a process each; the first one's figures."""
    import torch

    count = torch.cuda.device_count()
    if count < 2:
        return {"absent": f"it takes two GPUs, and there is {count}"}
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        argv = [sys.executable, __file__, "rank"]
        ranks = [
            subprocess.Popen(
                [*argv, str(rank), str(count), f"{folder}/store"],
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            )
            for rank in range(count)
        ]
        said = ranks[0].communicate()[0]
        codes = [rank.wait() for rank in ranks]
    if any(codes):
        raise RuntimeError(f"ranks ended with {codes}")
    return json.loads(said.splitlines()[-1])  # NCCL may have logged to it


def rank(number: int, count: int, store: str) -> None:
    """One of the processes of an all-reduce.

    Destroying the process group while a graph holds its work can hang: it leaves without.
    """
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(number)
    dist.init_process_group(
        "nccl",
        init_method=f"file://{store}",
        rank=number,
        world_size=count,
        timeout=timedelta(seconds=120),
        device_id=torch.device("cuda", number),
    )
    pattern = torch.arange(MIB, device="cuda", dtype=torch.float32) % 7
    values = pattern + number
    dist.all_reduce(values)
    right = bool(torch.equal(values, count * pattern + count * (count - 1) / 2))

    large = torch.zeros(SIZE // 4, device="cuda", dtype=torch.float32)
    taken = _seconds(lambda: dist.all_reduce(large))
    figures = {
        "gpus": count,
        "right": right,
        "latency_us": _latency() * 1e6,
        "bus_gb_s": SIZE / taken * 2 * (count - 1) / count / 1e9,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
    }
    dist.barrier()
    if number == 0:
        _say(figures)
    os._exit(0)


def _latency() -> float:
    """Seconds of one small all-reduce inside a CUDA graph."""
    import torch
    import torch.distributed as dist

    small = torch.zeros(SMALL // 2, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            dist.all_reduce(small)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # NCCL's watchdog asks for events from its own thread, which a global mode would not allow.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(IN_GRAPH):
            dist.all_reduce(small)
    return _seconds(graph.replay, rounds=REPLAYS) / IN_GRAPH


def flash_attn() -> object:
    """Against float64, beside what torch itself gives in the same precision."""
    import torch

    if importlib.util.find_spec("flash_attn") is None:
        return {"absent": "flash-attn is not in this environment"}
    from flash_attn import flash_attn_func

    generator = torch.Generator(device="cuda").manual_seed(0)
    shape = (2, 256, 8, 64)  # batch, sequence, heads, width of a head
    query, key, value = (
        torch.randn(shape, device="cuda", dtype=torch.bfloat16, generator=generator)
        for _ in range(3)
    )
    exact = _attention(query.double(), key.double(), value.double())
    ours = flash_attn_func(query, key, value, causal=True).double()
    plain = _attention(query, key, value).double()
    return {
        "error": float((ours - exact).abs().max()),
        "plain_error": float((plain - exact).abs().max()),
    }


def _attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    import torch

    query, key, value = (part.transpose(1, 2) for part in (query, key, value))
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    length = scores.shape[-1]
    later = torch.ones(length, length, device=scores.device, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, float("-inf")).softmax(-1)
    return (weights @ value).transpose(1, 2)


def vllm() -> object:
    """It imports, and takes this machine for one with CUDA."""
    if importlib.util.find_spec("vllm") is None:
        return {"absent": "vLLM is not in this environment"}
    import vllm as server
    from vllm.platforms import current_platform

    return {
        "version": server.__version__,
        "cuda": bool(current_platform.is_cuda()),
        "device": str(current_platform.get_device_name()),
    }


def _seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median seconds of some GPU work, measured on the GPU."""
    import torch

    work()
    taken = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3)
    return float(statistics.median(taken))


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


TRIALS = {one.__name__: one for one in (kernel, bandwidth, p2p, allreduce, flash_attn, vllm)}


def main(argv: list[str]) -> None:
    """Do one trial."""
    if argv[0] == "rank":
        rank(int(argv[1]), int(argv[2]), argv[3])
    elif importlib.util.find_spec("torch") is None:
        _say({"absent": f"{Path(sys.executable)} has no torch"})
    else:
        _say(TRIALS[argv[0]]())


if __name__ == "__main__":
    main(sys.argv[1:])
