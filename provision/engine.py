"""The loop: probe, plan, apply, probe again, until the plan is empty.

An exit status of 0 is never the sign of success: what counts is that planning from a fresh
probe finds nothing left to do.
"""

from __future__ import annotations

import getpass
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from provision import resources, wire
from provision.errors import AccessError, ProvisionError, TransportError
from provision.facts import Boot, Facts, Journal, Run, parse
from provision.plan import Plan, Unpack, change_data
from provision.planner import ROUND_LIMIT, plan
from provision.promises import merge
from provision.target import Target
from provision.uv_wheel import uv_wheel

REBOOT_DEADLINE = 1200.0
"""Seconds until a host must be back: large servers take ten minutes to test their memory."""
RECONNECT_DEADLINE = 120.0
"""Seconds to find a host again whose connection broke while its run goes on."""
FIRST_WAIT, LONGEST_WAIT = 0.3, 10.0
"""Seconds between two attempts to reach a host that is away."""

Tell = Callable[[Mapping[str, Any]], None]
"""Is told what happens, as events; the report makes lines of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A host at one moment, and what it lacks."""

    raw: Mapping[str, Any]
    facts: Facts
    plan: Plan


class Stale(ProvisionError):
    """Another run came in between probing and applying; nothing was done."""


class NotConverged(ProvisionError):
    """The host is not as wanted, and why."""

    def __init__(self, what: str, *, hint: str = "", log: tuple[str, ...] = ()) -> None:
        super().__init__(what, hint=hint)
        self.log = log


def look(target: Target) -> Look:
    """Probe and plan. On a host that is right this is one session and one command.

    Where packages are to be installed, apt is asked on the same connection what it would do.
    """
    raw = wire.probe(target.transport, resources.query(target.want))
    raw["facts"].setdefault("simulations", {"status": "absent"})
    planned = plan(target.host.name, target.want, raw)
    # What apt would remove can make another transaction of the next change: it is asked again.
    while planned.now.unasked:
        said = wire.simulate(target.transport, [apt.argv for apt in planned.now.unasked])
        if silent := [apt.key for apt in planned.now.unasked if apt.key not in said]:
            raise ProvisionError(f"{target.host.name}: apt said nothing of: {silent[0]}")
        raw = merge(raw, {"simulations": said})
        planned = plan(target.host.name, target.want, raw)
    return Look(raw=raw, facts=parse(raw), plan=planned)


def provision(target: Target, tell: Tell) -> Look:
    """Bring a host to its want, and look once more.

    Raises NotConverged when a round fails, is blocked or does not do what it promised.
    """
    done: set[str] = set()
    for _ in range(ROUND_LIMIT):
        tell({"event": "probing"})
        seen = _look_through(target, tell)
        if isinstance(seen.facts.run, Run):
            tell({"event": "joining", **_run_data(seen.facts.run)})
            _finish(target, seen, wire.follow(target.transport, seen.facts.run.run), tell)
            continue
        tell({"event": "planned", "plan": seen.plan})
        if seen.plan.empty:
            return seen
        if seen.plan.fingerprint in done:
            raise _unchanged(seen.plan)
        done.add(seen.plan.fingerprint)
        try:
            apply(target, seen, tell)
        except Stale:
            tell({"event": "stale"})
            done.discard(seen.plan.fingerprint)
    raise NotConverged(
        f"{target.host.name}: still not as wanted after {ROUND_LIMIT} rounds: "
        f"{', '.join(change.id for change in seen.plan.now.changes)}"
    )


def _look_through(target: Target, tell: Tell) -> Look:
    """Look, also at a host that somebody reboots at this moment.

    One that never answered is not waited for: its address may be wrong.
    """
    try:
        return look(target)
    except AccessError:
        raise
    except TransportError as broken:
        if target.transport.cost.sessions == 0:
            raise
        tell({"event": "reconnecting", "reason": broken.what})
        _reach(target, RECONNECT_DEADLINE)
        return look(target)


def apply(target: Target, seen: Look, tell: Tell) -> None:
    """Carry out the plan's first round, its reboot included.

    Raises NotConverged when the round is blocked, before anything is done, and when it fails.
    """
    for change in seen.plan.now.blocked:
        raise NotConverged(f"{seen.plan.host}: {change.id}: {change.blocked}", hint=change.hint)
    for sha256, content in _uploads(target, seen, tell):
        tell({"event": "uploading", "bytes": len(content)})
        wire.put(target.transport, sha256, content)
    _finish(target, seen, wire.apply(target.transport, order(seen)), tell)


def apply_saved(target: Target, seen: Look, tell: Tell) -> Look:
    """Carry out one round, and look whether it did what it promised."""
    apply(target, seen, tell)
    after = look(target)
    if after.plan.fingerprint == seen.plan.fingerprint:
        raise _unchanged(after.plan)
    return after


def order(seen: Look) -> dict[str, Any]:
    """The first round as it is sent to the host, valid as long as no other run was started."""
    one = seen.plan.now
    data = [change_data(change) for change in one.changes]
    actions = [action for change in data for action in change["actions"]]
    transactions = [action for action in actions if action["do"] == "apt"]
    return {
        "who": f"{getpass.getuser()}@{socket.gethostname()}",
        "after": seen.facts.journal.last if isinstance(seen.facts.journal, Journal) else None,
        "fingerprint": one.fingerprint,
        "changes": [{"id": c["id"], "actions": c["actions"]} for c in data],
        "allowed": {
            side: {name: what for t in transactions for name, what in (t[side] or {}).items()}
            for side in ("install", "remove")
        },
    }


def _unchanged(planned: Plan) -> NotConverged:
    """A round was carried out without an error, and is still to do."""
    first = planned.now.changes[0]
    return NotConverged(
        f"{planned.host}: {first.id} was applied without an error, but the host is still "
        f"{first.before!r} instead of {first.after!r}",
        hint="`invoke facts` shows what the probe sees",
    )


def _finish(target: Target, seen: Look, events: Iterator[dict[str, Any]], tell: Tell) -> None:
    """Follow a run to its end, over broken connections; wait for the reboot that it ends with."""
    failed: dict[str, Any] = {}
    for event in _unbroken(target, seen, events, tell):
        tell(event)
        if event["event"] == "failed":
            failed = event
        if event["event"] == "lost" or (event["event"] == "end" and not event["ok"]):
            raise _failure(target, event, failed)
        if event["event"] == "end":
            if event["reboot"]:
                _await_reboot(target, seen, tell)
            return


def _failure(target: Target, last: dict[str, Any], failed: dict[str, Any]) -> ProvisionError:
    if last.get("stale"):
        return Stale(
            f"{target.host.name}: another run was started in between; nothing was done",
            hint="run the same command again",
        )
    if failed:
        what = f"{failed['id']}: {failed['reason']}"
    elif last["event"] == "lost":
        what = "the run on the host died without an end"
    else:
        what = last.get("reason", "the run failed")
    cure = failed.get("hint") or "mend the cause and run the same command again"
    return NotConverged(
        f"{target.host.name}: {what}",
        hint=f"{cure}; whole log on the host: /var/log/firstlight/{last['run']}.log",
        log=tuple(failed.get("log", ())),
    )


def _unbroken(
    target: Target, seen: Look, events: Iterator[dict[str, Any]], tell: Tell
) -> Iterator[dict[str, Any]]:
    """A run's events, each once, though the connection may break and be made anew.

    Following anew tells everything again: output and events, each in its own order.
    """
    run = ""
    passed: Counter[bool] = Counter()
    while True:
        at: Counter[bool] = Counter()
        try:
            for event in events:
                run = event.get("run", run)
                if event["event"] in ("alive", "following"):
                    continue
                stream = event["event"] == "output"
                at[stream] += 1
                if at[stream] > passed[stream]:
                    yield event
        except TransportError as broken:
            if not run:
                raise
            passed |= at
            tell({"event": "reconnecting", "reason": broken.what})
            _reach(target, REBOOT_DEADLINE if seen.plan.now.reboots else RECONNECT_DEADLINE)
            events = wire.follow(target.transport, run)
        else:
            return


def _await_reboot(target: Target, seen: Look, tell: Tell) -> None:
    """Wait until the host is back with another boot id, and its services have started."""
    assert isinstance(seen.facts.boot, Boot)  # noqa: S101 - a reboot is planned from it
    tell({"event": "rebooting"})
    start = time.monotonic()
    while _reach(target, REBOOT_DEADLINE) == seen.facts.boot.id:
        if time.monotonic() - start > REBOOT_DEADLINE:
            raise NotConverged(
                f"{target.host.name}: said yes to the reboot, but is still in the same boot",
                hint="a service may hold up the shutdown: systemctl list-jobs",
            )
        time.sleep(FIRST_WAIT)
    # Fails on a host where some unit failed; whether that matters, the checks say.
    target.transport.run(("/usr/bin/systemctl", "is-system-running", "--wait"), b"", deadline=300.0)
    tell({"event": "back", "seconds": round(time.monotonic() - start, 1)})


def _reach(target: Target, deadline: float) -> str:
    """Connect, however often it takes; the boot id. Raises TransportError at the deadline."""
    end = time.monotonic() + deadline
    wait = FIRST_WAIT
    argv = ("/usr/bin/cat", "/proc/sys/kernel/random/boot_id")
    while True:
        try:
            return target.transport.run(argv, b"", deadline=30.0).out.strip()
        except TransportError:
            target.transport.close()
            if time.monotonic() > end:
                raise
        time.sleep(wait)
        wait = min(wait * 1.5, LONGEST_WAIT)


def _uploads(target: Target, seen: Look, tell: Tell) -> Iterator[tuple[str, bytes]]:
    wheels = [a for c in seen.plan.now.changes for a in c.actions if isinstance(a, Unpack)]
    for wheel in wheels:
        tell({"event": "fetching", "what": f"uv {target.want.uv.version}"})
        yield wheel.wheel, uv_wheel(target.want.uv.version, wheel.wheel)


def _run_data(run: Run) -> dict[str, Any]:
    return {"run": run.run, "who": run.who, "since": run.since}
