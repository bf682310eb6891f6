"""What GPUs did when they were made to work, as findings. Pure.

Bandwidths: Azure's node health checks (Gen5 x16: 48 GB/s, Gen4 x16: 21). Small all-reduces: twice
what was measured over NVLink (2 H200: 12.4 µs), and what was published for 8 GPUs over two sockets
(rtx6kpro: 58 µs at 8 KB). Large ones: what a host gives before anybody tunes it (rtx6kpro:
22 GB/s over Gen5). Attention: flash-attn's own tests allow twice the error of torch's operations.
"""

from __future__ import annotations

from provision.baseline import Figures
from provision.checks import multi_gpu
from provision.checks.cards import Card, cards
from provision.checks.finding import Action, Finding, judge, unknown
from provision.checks.health import IDLERS, STUCK
from provision.facts import Absent, Facts, Gpu, Topology, Unknown
from provision.facts.trials import AllReduce, Attention, Bandwidth, Copy, Hung, Kernel, Trials
from provision.want import Want

LANE = {5: 48 / 16, 4: 21 / 16}
"""PCIe generation → GB/s per lane, of pinned copies of 256 MiB."""
FLOAT32 = 512 * 2**-24
"""Relative error that sums of 512 products in float32 have at most."""
LATENCY = {True: 25.0, False: 116.0}
"""µs at 12 KiB: joined by NVLink or not."""
BUS = {5: 22 * 0.8, 4: 22 * 0.4}
"""GB/s of bus bandwidth at 256 MiB over PCIe, a fifth below what is usual."""
GAIN = 2.0
"""How many times NVLink must be faster than the way through host memory."""
SLOWER = 0.8
"""Of a recorded figure: what remains right. Runs differ by a few percent."""
ATTENTION = 2.0
NOTHING = 1e-5
"""Error that is none, where torch's own is 0."""


def busy(facts: Facts) -> list[str]:
    """Who computes on GPUs at the moment: trials would disturb them."""
    users = facts.gpu_users if isinstance(facts.gpu_users, list) else []
    named = [f"{user.name} ({user.pid})" for user in users if user.name not in IDLERS]
    gpus = facts.gpus if isinstance(facts.gpus, list) else []
    return named or [f"a process on GPU {gpu.index}" for gpu in gpus if gpu.processes]


def check(want: Want, facts: Facts, trials: Trials | Unknown) -> list[Finding]:
    """A row for each thing tried; one alone, saying why, where nothing could be tried."""
    if isinstance(trials, Unknown):
        return [unknown("active.trials", "host", expected="outcomes", reason=trials.reason)]
    there = cards(want, facts)
    recorded = want.baseline.figures if want.baseline else None
    rows = [*_kernels(there, trials), *_bandwidths(there, trials, recorded)]
    rows += [*_copies(there, trials), *_allreduce(facts, there, trials, recorded)]
    rows += [*_attention(want, trials), *_server(want, trials)]
    return rows + _afterwards(there, trials)


def _failed(name: str, trial: object, facts: Facts | None = None) -> Finding:
    """A trial without a result: it hung, failed, or could not be tried."""
    if isinstance(trial, Hung):
        return Finding(
            id=name,
            subject="host",
            expected="an end",
            observed="a hang",
            action=Action.REBOOT,
            reason=f"{trial.reason}; {_cause(facts)}",
        )
    reason = trial.reason if isinstance(trial, Unknown | Absent) else ""
    return unknown(name, "host", expected="a result", reason=reason)


def _cause(facts: Facts | None) -> str:
    """What the passive checks see that makes collective operations hang."""
    if facts is None:
        return "the driver or the GPU: see gpu.xid"
    rows = multi_gpu.blocking(facts)
    if rows:
        return f"likely because of {'; '.join(row.prose for row in rows)}"
    return "neither IOMMU nor ACS stands in the way: try NCCL_P2P_DISABLE=1 and NCCL_DEBUG=INFO"


def _named(there: list[Card], number: int) -> str:
    """CUDA counts as nvidia-smi does, unless CUDA_VISIBLE_DEVICES is set."""
    return there[number].subject if number < len(there) else f"GPU {number}"


def _kernels(there: list[Card], trials: Trials) -> list[Finding]:
    if not isinstance(trials.kernel, list):
        return [_failed("active.kernel", trials.kernel)]
    done = {row.gpu: row for row in trials.kernel}
    return [_kernel(card.subject, done.get(at)) for at, card in enumerate(there)]


def _kernel(subject: str, row: Kernel | None) -> Finding:
    well = row is not None and row.exact and row.error <= FLOAT32
    observed = "does not compute"
    if row:
        observed = "computes right" if well else f"computes wrong (error {row.error:.1e})"
    return judge(
        "active.kernel",
        subject,
        well,
        expected="computes right",
        observed=observed,
        action=Action.RESET,
        reason="CUDA does not see it"
        if row is None
        else "silent errors: after a reset, inspect it",
        noun="it",
    )


def _bandwidths(there: list[Card], trials: Trials, recorded: Figures | None) -> list[Finding]:
    if not isinstance(trials.bandwidth, list):
        return [_failed("active.bandwidth", trials.bandwidth)]
    return [
        row
        for one in trials.bandwidth
        if one.gpu < len(there) and (row := _bandwidth(there[one.gpu], one, recorded))
    ]


def _bandwidth(card: Card, row: Bandwidth, recorded: Figures | None) -> Finding | None:
    """None for generations of PCIe that nobody measured for us, here or elsewhere."""
    generation = card.sku.link_gen if card.sku else card.gpu.link_gen_max
    width = card.sku.link_width if card.sku else card.gpu.link_width
    if card.recorded:
        generation, width = card.recorded.link_gen, card.recorded.link_width
    own = recorded.host_gb_s.get(card.gpu.slot) if recorded else None
    if own is not None:
        least = own * SLOWER
    elif generation in LANE and width is not None:
        least = LANE[generation] * width
    else:
        return None
    return judge(
        "active.bandwidth",
        card.subject,
        min(row.to_gpu, row.to_host) >= least,
        expected=f"at least {least:.0f} GB/s",
        observed=f"{row.to_gpu:.1f} GB/s to it, {row.to_host:.1f} GB/s back",
        action=Action.INSPECT,
        reason=f"slot {card.gpu.slot}: its link (see gpu.link_width, gpu.link_gen), or memory of "
        "another socket",
        noun="host memory",
    )


def _copies(there: list[Card], trials: Trials) -> list[Finding]:
    if not isinstance(trials.p2p, list):
        return [_failed("active.p2p", trials.p2p)]
    rows = []
    for number, card in enumerate(there):
        own = [copy for copy in trials.p2p if copy.gpu == number]
        if own:
            rows.append(_copied(there, card, own))
    return rows


def _copied(there: list[Card], card: Card, copies: list[Copy]) -> Finding:
    damaged = [_named(there, copy.to) for copy in copies if not copy.intact]
    direct = sum(copy.peer for copy in copies)
    speed = f"{min(copy.gb_s for copy in copies):.0f} GB/s and more"
    return judge(
        "active.p2p",
        card.subject,
        not damaged,
        expected="intact copies",
        observed=f"damaged copies to {', '.join(damaged)}"
        if damaged
        else f"intact copies, {direct} of {len(copies)} direct, {speed}",
        action=Action.REBOOT,
        reason="an IOMMU or a bridge's ACS in the way (see pcie.iommu, pcie.acs): until it is "
        "gone NCCL_P2P_DISABLE=1",
        noun="makes",
    )


def _allreduce(
    facts: Facts, there: list[Card], trials: Trials, recorded: Figures | None
) -> list[Finding]:
    done = trials.allreduce
    if isinstance(done, Absent) and len(there) < 2:
        return []
    if not isinstance(done, AllReduce):
        return [_failed("active.allreduce", done, facts)]
    links = facts.topology.links if isinstance(facts.topology, Topology) else []
    joined = bool(links) and multi_gpu.all_nvlink(links)
    host = trials.allreduce_host
    most = LATENCY[joined]
    if recorded and recorded.latency_us is not None:
        most = recorded.latency_us / SLOWER
    rows = [
        judge(
            "active.allreduce",
            "host",
            done.right and done.gpus == len(there),
            expected=f"right over {len(there)} GPUs",
            observed=f"{'right' if done.right else 'wrong'} over {done.gpus} GPUs",
            action=Action.REBOOT,
            reason=_cause(facts),
            noun="all-reduce",
        ),
        judge(
            "active.latency",
            "host",
            done.latency_us <= most,
            expected=f"at most {most:.0f} µs",
            observed=f"{done.latency_us:.1f} µs{_without(host)}",
            action=Action.INSPECT,
            reason="NCCL takes a detour: NCCL_DEBUG=INFO shows it; try NCCL_P2P_LEVEL and "
            "NCCL_PROTO, and keep what measures better",
            noun="all-reduce of 12 KiB",
        ),
        _bus(done, host, _least(there, host, recorded, joined=joined), joined=joined),
    ]
    if not isinstance(host, AllReduce):
        rows.append(_failed("active.allreduce_host", host, facts))
    return rows


def _without(host: object) -> str:
    """The same without peer-to-peer access, for comparison."""
    return f" ({host.latency_us:.1f} µs without P2P)" if isinstance(host, AllReduce) else ""


def _least(there: list[Card], host: object, recorded: Figures | None, *, joined: bool) -> float:
    """As recorded; or over PCIe what is usual, over NVLink more than through host memory."""
    if recorded and recorded.bus_gb_s is not None:
        return recorded.bus_gb_s * SLOWER
    if joined and isinstance(host, AllReduce):
        return host.bus_gb_s * GAIN
    generations = [card.sku.link_gen if card.sku else card.gpu.link_gen_max for card in there]
    return BUS.get(min((one for one in generations if one), default=0), 0.0)


def _bus(done: AllReduce, host: object, least: float, *, joined: bool) -> Finding:
    detour = f" ({host.bus_gb_s:.1f} GB/s without P2P)" if isinstance(host, AllReduce) else ""
    return judge(
        "active.bus_bandwidth",
        "host",
        done.bus_gb_s >= least,
        expected=f"at least {least:.1f} GB/s",
        observed=f"{done.bus_gb_s:.1f} GB/s{detour}",
        action=Action.INSPECT,
        reason="NVLink is not used: see gpu.links, and NCCL_DEBUG=INFO"
        if joined
        else "see active.bandwidth and gpu.link_width; NCCL_DEBUG=INFO shows the way it takes",
        noun="all-reduce of 256 MiB",
    )


def _wanted(want: Want, name: str) -> bool:
    """An environment's lock has it, or it is to be built for one."""
    wheels = (text for one in want.stack.environment.values() for text in one.wheels)
    pinned = any(pin.name == name for lock in want.stack.locks.values() for pin in lock.pins)
    return pinned or any(text.startswith(name) for text in wheels)


def _attention(want: Want, trials: Trials) -> list[Finding]:
    done = trials.flash_attn
    if isinstance(done, Absent) and not _wanted(want, "flash-attn"):
        return []
    if not isinstance(done, Attention):
        return [_failed("active.flash_attn", done)]
    most = max(ATTENTION * done.plain_error, NOTHING)
    return [
        judge(
            "active.flash_attn",
            "host",
            done.error <= most,
            expected=f"at most {most:.1e} from float64",
            observed=f"{done.error:.1e} from float64",
            action=Action.BUILD,
            reason="the wheel computes wrong on this GPU: was it built for its architecture?",
            noun="flash-attn",
        )
    ]


def _server(want: Want, trials: Trials) -> list[Finding]:
    done = trials.vllm
    if isinstance(done, Absent) and not _wanted(want, "vllm"):
        return []
    if isinstance(done, Absent | Unknown | Hung):
        return [_failed("active.vllm", done)]
    return [
        judge(
            "active.vllm",
            "host",
            done.cuda,
            expected="sees CUDA",
            observed=f"{done.version} sees {done.device if done.cuda else 'no CUDA'}",
            action=Action.PROVISION,
            reason="it would serve on the processor, or not at all: see environment",
            noun="vLLM",
        )
    ]


def _afterwards(there: list[Card], trials: Trials) -> list[Finding]:
    """Nothing computes any more, and every GPU still answers."""
    if not isinstance(trials.after, list):
        return [_failed("active.left", trials.after)]
    left = {gpu.slot: gpu for gpu in trials.after}
    return [_left(card, left.get(card.gpu.slot)) for card in there]


def _left(card: Card, gpu: Gpu | None) -> Finding:
    stuck = gpu is None or bool(gpu.processes) or (gpu.utilisation or 0) >= STUCK
    observed = "gone" if gpu is None else f"{gpu.utilisation} % busy, {gpu.processes} processes"
    return judge(
        "active.left",
        card.subject,
        not stuck,
        expected="as it was found",
        observed=observed if stuck else "as it was found",
        action=Action.REBOOT if gpu is None else Action.RESET,
        reason="the trials left it stuck: when a reset is refused, reboot",
        noun="is",
    )
