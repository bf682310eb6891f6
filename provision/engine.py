"""The loop: probe, plan, apply, probe again, until the plan is empty.

An exit status of 0 is never the sign of success: what counts is that planning from a fresh
probe finds nothing left to do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from provision import resources, rollback, wheelhouse, wire
from provision.errors import AccessError, ProvisionError, TransportError
from provision.facts import Absent, Boot, Facts, Journal, Run, WrongFacts, parse
from provision.feed import locked_wheels, uv_wheel
from provision.follow import (
    OVERTAKEN,
    RECONNECT_DEADLINE,
    Cancelled,
    NotConverged,
    Stale,
    Tell,
    Watch,
    finish,
    me,
    reach,
)
from provision.plan import Feed, Place, Plan, Round, Unpack, change_data
from provision.planner import ROUND_LIMIT, plan
from provision.promises import holds, merge
from provision.stop import Stop
from provision.target import Target

REBOOT_LIMIT = 2
"""Restarts in one run: a third would not mend what two did not."""
NEVER = Stop()
"""Nobody asks for an end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A host at one moment, and what it lacks."""

    raw: Mapping[str, Any]
    facts: Facts
    plan: Plan


def look(target: Target) -> Look:
    """Probe and plan. On a host that is right this is one session and one command.

    Where packages are to be installed, apt is asked on the same connection what it would do.
    """
    raw = wire.probe(target.transport, resources.query(target.want))
    with _named(target):
        return _planned(target, raw)


@contextmanager
def _named(target: Target) -> Iterator[None]:
    """What is wrong with a host's facts is told with the host's name."""
    try:
        yield
    except WrongFacts as error:
        raise ProvisionError(f"{target.host.name}: {error.what}", hint=error.hint) from error


def _planned(target: Target, raw: dict[str, Any]) -> Look:
    parse(raw)
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


def provision(target: Target, tell: Tell, stop: Stop = NEVER) -> Look:
    """Bring a host to its want, and look once more.

    A run that goes on already is followed first. Raises NotConverged when a round fails, is
    blocked or does not do what it promised, Cancelled once `stop` is set and the change that was
    going on is done.
    """
    done: set[str] = set()
    reboots = 0
    for _ in range(ROUND_LIMIT):
        tell({"event": "probing"})
        seen = _look_through(target, tell, stop)
        if isinstance(seen.facts.run, Run):
            join(target, seen, tell, stop)
            continue
        tell({"event": "planned", "plan": seen.plan})
        if seen.plan.empty:
            return seen
        if _overtaken(target, seen):
            tell({"event": "stale", "reason": OVERTAKEN})
            continue
        if seen.plan.fingerprint in done:
            raise _unchanged(seen.plan)
        reboots += seen.plan.now.reboots
        if reboots > REBOOT_LIMIT:
            raise _restarted_enough(seen.plan)
        done.add(seen.plan.fingerprint)
        try:
            apply(target, seen, tell, stop)
        except Stale as stale:
            tell({"event": "stale", "reason": stale.why})
            done.discard(seen.plan.fingerprint)
            reboots -= seen.plan.now.reboots
    raise NotConverged(
        f"{target.host.name}: still not as wanted after {ROUND_LIMIT} rounds: "
        f"{', '.join(change.id for change in seen.plan.now.changes)}"
    )


def _overtaken(target: Target, seen: Look) -> bool:
    """Whether a plan is blocked by what apt said while another run changed what it was asked of."""
    if not seen.plan.now.blocked or isinstance(seen.facts.simulations, Absent):
        return False
    now = parse(wire.probe(target.transport, resources.query(target.want)))
    return isinstance(now.run, Run) or now.journal != seen.facts.journal


def _look_through(target: Target, tell: Tell, stop: Stop) -> Look:
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
        reach(Watch(target=target, tell=tell, stop=stop), RECONNECT_DEADLINE)
        return look(target)


def join(target: Target, seen: Look, tell: Tell, stop: Stop = NEVER) -> None:
    """Follow the run that goes on, whoever started it, to its end."""
    run = going_on(seen)
    assert run is not None  # noqa: S101 - asked for by the caller
    tell(run)
    finish(_watch(target, seen, tell, stop), wire.follow(target.transport, run["run"], lines=None))


def going_on(seen: Look) -> dict[str, Any] | None:
    """The run that went on when the host was looked at, as an event; None when none did."""
    run = seen.facts.run
    if not isinstance(run, Run):
        return None
    return {"event": "joining", "run": run.run, "who": run.who, "since": run.since}


def free(target: Target, seen: Look, tell: Tell, *, wait: bool) -> Look:
    """The host when no run goes on there: now, or with `wait` once that is over.

    Raises ProvisionError saying who holds it.
    """
    while isinstance(seen.facts.run, Run):
        run = seen.facts.run
        if not wait:
            since = time.strftime("%H:%M:%S", time.localtime(run.since))
            raise ProvisionError(
                f"{target.host.name}: run {run.run} of {run.who} is going on since {since}",
                hint="--wait lets it end first; `invoke cancel` stops it before its next change",
            )
        with suppress(NotConverged, Cancelled):  # theirs; what is left to do, planning says
            join(target, seen, tell)
        seen = look(target)
    return seen


def apply(
    target: Target,
    seen: Look,
    tell: Tell,
    stop: Stop = NEVER,
    files: Mapping[str, bytes] | None = None,
) -> None:
    """Carry out the plan's first round, its reboot included.

    `files`: sha256 → what it places beside wheels that were built here.
    Raises NotConverged when the round is blocked, before anything is done, and when it fails.
    """
    for change in seen.plan.now.blocked:
        raise NotConverged(f"{seen.plan.host}: {change.id}: {change.blocked}", hint=change.hint)
    watch = _watch(target, seen, tell, stop)
    feeds = _feed(target, seen, tell)
    for sha256, content in _uploads(target, seen, tell, files or {}):
        tell({"event": "uploading", "bytes": len(content)})
        wire.put(target.transport, sha256, content)
    stop.wait_for_answer()
    watch.check("before the next round")
    finish(watch, wire.apply(target.transport, {**order(seen), "feeds": feeds}))


def apply_saved(target: Target, seen: Look, tell: Tell, stop: Stop = NEVER) -> Look:
    """Carry out one round, and look whether it did what it promised."""
    apply(target, seen, tell, stop)
    after = look(target)
    if after.plan.fingerprint == seen.plan.fingerprint:
        raise _unchanged(after.plan)
    return after


def back(target: Target) -> Plan:
    """What `switch_back` would do. Raises ProvisionError where there is nothing to go back to.

    The older releases' files are looked at, which takes too long for every look.
    """
    query = resources.query(target.want)
    closely = {name: {**one, "wanted": []} for name, one in query["environments"].items()}
    raw = wire.probe(target.transport, {**query, "environments": closely})
    with _named(target):
        changes = rollback.environments(target.host.name, target.want, parse(raw))
    stack = target.want.stack.name
    return Plan(host=target.host.name, stack=stack, rounds=(Round(changes=changes),))


def switch_back(target: Target, seen: Look, tell: Tell, stop: Stop = NEVER) -> Look:
    """Point the environments to the releases before, and look whether it is so.

    Raises ProvisionError where there is none.
    """
    planned = back(target)
    tell({"event": "planned", "plan": planned})
    apply(target, replace(seen, plan=planned), tell, stop)
    after = look(target)
    for change in planned.now.changes:
        if wrong := holds(after.raw, change.makes):
            raise NotConverged(f"{target.host.name}: {change.id}: {wrong[0]}")
    return after


def cancel(target: Target, seen: Look) -> str | None:
    """Ask the run that goes on to stop before its next change; its name, None when none does."""
    run = seen.facts.run
    if isinstance(run, Run) and wire.cancel(target.transport, run.run, me()):
        return run.run
    return None


def _watch(target: Target, seen: Look, tell: Tell, stop: Stop) -> Watch:
    boot = seen.facts.boot
    return Watch(
        target=target,
        tell=tell,
        stop=stop,
        boot=boot if isinstance(boot, Boot) else None,
        reboots=seen.plan.now.reboots,
    )


def order(seen: Look) -> dict[str, Any]:
    """The first round as it is sent to the host, valid as long as no other run was started."""
    one = seen.plan.now
    data = [change_data(change) for change in one.changes]
    actions = [action for change in data for action in change["actions"]]
    transactions = [action for action in actions if action["do"] == "apt"]
    return {
        "who": me(),
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


def _restarted_enough(planned: Plan) -> NotConverged:
    """Restarts do not help."""
    first = planned.now.changes[0]
    return NotConverged(
        f"{planned.host}: was restarted {REBOOT_LIMIT} times, and still: {first.before}",
        hint="inspect it: `journalctl -k -b` and `dkms status` on the host say why",
    )


def _uploads(
    target: Target, seen: Look, tell: Tell, files: Mapping[str, bytes]
) -> Iterator[tuple[str, bytes]]:
    """What the round's actions need of us: uv's wheel, those that were built here, and `files`."""
    for action in (action for change in seen.plan.now.changes for action in change.actions):
        if isinstance(action, Unpack):
            tell({"event": "fetching", "what": f"uv {target.want.uv.version}"})
            yield action.wheel, uv_wheel(target.want.uv.version, action.wheel)
        elif isinstance(action, Place) and action.sha256 in files:
            yield action.sha256, files[action.sha256]
        elif isinstance(action, Place):
            yield action.sha256, wheelhouse.content(target.want.wheelhouse, action.sha256)


def _feed(target: Target, seen: Look, tell: Tell) -> dict[str, dict[str, str]]:
    """Upload the wheels of locks whose hosts reach no index, each once: lock → file → sha256."""
    feeds: dict[str, dict[str, str]] = {}
    locks = {lock.sha256: lock for lock in target.want.stack.locks.values()}
    for action in (action for change in seen.plan.now.changes for action in change.actions):
        if not isinstance(action, Feed):
            continue
        tell({"event": "fetching", "what": f"the wheels of lock {action.lock[:12]}"})
        files = locked_wheels(locks[action.lock], action.python)
        lacking = set(wire.lacking(target.transport, list(files.values())))
        for path, sha256 in files.items():
            if sha256 in lacking:
                tell({"event": "uploading", "bytes": path.stat().st_size})
                wire.put(target.transport, sha256, path.read_bytes())
        feeds[action.lock] = {path.name: sha256 for path, sha256 in files.items()}
    return feeds
