"""Follows a run on a host to its end: over broken connections, through the restart it ends with.

Nothing here can harm the run: it goes on without a listener.
"""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from provision import TOOL, wire
from provision.errors import INTERRUPTED, AccessError, HostKeyError, ProvisionError, TransportError
from provision.facts import Boot
from provision.stop import Stop
from provision.target import Target

AWAY_DEADLINE = 1200.0
"""Seconds until a host must be back: large servers take ten minutes to test their memory."""
SAME_BOOT_DEADLINE = 300.0
"""Seconds that a shutdown may take: systemd gives a service 90 s to stop before it kills it."""
BOOTING_DEADLINE = 120.0
"""Seconds for which a host that boots may refuse logins: pam_nologin lets in root alone."""
RECONNECT_DEADLINE = 120.0
"""Seconds to find a host again whose connection broke while its run goes on."""
FIRST_WAIT, LONGEST_WAIT = 0.3, 10.0
"""Seconds between two attempts to reach a host that is away."""
PATIENCE = 30.0
"""Seconds between two words about a host that is awaited."""

Tell = Callable[[Mapping[str, Any]], None]
"""Is told what happens, as events; the report makes lines of them."""

ASK = ("/usr/bin/cat", "/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease")
JOBS = ("/usr/bin/systemctl", "list-jobs", "--no-legend", "--no-pager", "--plain")


class Stale(ProvisionError):
    """What was planned on is over, and `why`; nothing was done."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(f"{host}: {why}; nothing was done", hint="run the same command again")
        self.why = why


OVERTAKEN = "another run was started in between"
"""Why what was planned no longer counts."""


class NotConverged(ProvisionError):
    """The host is not as wanted, and why."""

    def __init__(self, what: str, *, hint: str = "", log: tuple[str, ...] = ()) -> None:
        super().__init__(what, hint=hint)
        self.log = log


class Cancelled(ProvisionError):
    """Somebody asked for an end before the work was done."""

    exit_code = INTERRUPTED


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """Whom to follow, whom to tell, and who may ask for an end."""

    target: Target
    tell: Tell
    stop: Stop
    """Set: the run is to stop before its next change."""
    boot: Boot | None = None
    """The host's boot before the run; needed where it may restart."""
    reboots: bool = False

    @property
    def host(self) -> str:
        """Its name in the inventory."""
        return self.target.host.name

    def check(self, what: str) -> None:
        """Raise Cancelled when an end was asked for."""
        if self.stop.is_set():
            raise Cancelled(f"{self.host}: cancelled {what}", hint="the same command goes on")


def me() -> str:
    """Who starts and cancels runs: user@computer."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def finish(watch: Watch, events: Iterator[dict[str, Any]]) -> None:
    """Follow a run to its end, and wait for the restart that it ends with.

    Raises NotConverged when it failed or died, Stale when it was not begun, Cancelled.
    """
    last: dict[str, Any] = {}
    for event in _unbroken(watch, events):
        watch.tell(event)
        match event["event"]:
            case "failed" | "cancelled":
                last = event
            case "lost":
                raise _failure(watch.host, event, last)
            case "end" if event["result"] != "done":
                raise _failure(watch.host, event, last)
            case "end":
                if event["reboot"]:
                    await_reboot(watch)
                return


def _failure(host: str, end: Mapping[str, Any], last: Mapping[str, Any]) -> ProvisionError:
    result = end.get("result")
    if result == "stale":
        return Stale(host, OVERTAKEN)
    if last.get("event") == "cancelled":
        return Cancelled(
            f"{host}: cancelled by {last['by']} before {last['before']}; what was done stays",
            hint="the same command goes on from there",
        )
    if last.get("event") == "failed":
        what = f"{last['id']}: {last['reason']}"
    elif end["event"] == "lost":
        what = "the run on the host died without an end"
    else:
        what = end.get("reason", "the run failed")
    cure = last.get("hint") or "mend the cause and run the same command again"
    return NotConverged(
        f"{host}: {what}",
        hint=f"{cure}; whole log on the host: /var/log/{TOOL}/{end['run']}.log",
        log=tuple(last.get("log", ())),
    )


def _unbroken(watch: Watch, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A run's events, each once, though the connection may break and be made anew.

    Raises Stale when the host restarted before its journal had one of them.
    """
    transport = watch.target.transport
    run = ""
    known = {"events": 0, "lines": 0}
    boot = before = watch.boot.id if watch.boot else ""
    asked = False
    while True:
        try:
            for event in events:
                run = event.get("run", run)
                if event["event"] == "following":
                    known["lines"] = event["lines"]
                    continue  # a run that has not begun can't be asked to stop
                if watch.stop.is_set() and run and not asked:
                    wire.cancel(transport, run, me())
                    asked = True
                    watch.tell({"event": "cancelling"})
                if event["event"] == "alive":
                    continue
                if event["event"] == "lost" and not known["events"] and boot != before:
                    _await_services(watch)
                    raise Stale(watch.host, "the host restarted before the run began")
                known["lines" if event["event"] == "output" else "events"] += 1
                yield event
        except TransportError as broken:
            if not run:
                raise
            watch.tell({"event": "reconnecting", "reason": broken.what})
            # An end that was asked for is the run's: it must hear of it, and we of how it ended.
            patient = replace(watch, stop=Stop())
            # Before a run has begun the host may go through another run's restart.
            away = watch.reboots or not known["events"]
            boot, _ = reach(patient, AWAY_DEADLINE if away else RECONNECT_DEADLINE)
            events = wire.follow(transport, run, **known)
        else:
            return


def await_reboot(watch: Watch) -> None:
    """Wait until the host is back with another boot id, and its services have started.

    Raises NotConverged with what is known when it is not; HostKeyError when what comes back is
    not the host that went.
    """
    if watch.boot is None:
        raise NotConverged(
            f"{watch.host}: restarts, and which boot it was in is not known",
            hint="run the same command again once it is back",
        )
    watch.tell({"event": "rebooting"})
    start = time.monotonic()
    while True:
        try:
            boot, kernel = reach(watch, AWAY_DEADLINE)
        except HostKeyError as error:
            raise HostKeyError(f"after its restart, {error.what}", hint=error.hint) from error
        except TransportError as error:
            minutes = (time.monotonic() - start) / 60
            raise NotConverged(
                f"{watch.host}: has not come back {minutes:.0f} minutes "
                f"after its restart: {error.what}",
                hint="look at its console (BMC, IPMI); once it is up, run the same command again",
            ) from error
        if boot != watch.boot.id:
            break
        if time.monotonic() - start > SAME_BOOT_DEADLINE:
            raise _still_there(watch)
        time.sleep(FIRST_WAIT)
    _await_services(watch)
    watch.tell({"event": "back", "seconds": round(time.monotonic() - start, 1)})
    expected = watch.boot.next_kernel or watch.boot.kernel
    if kernel != expected:
        watch.tell({"event": "other-kernel", "kernel": kernel, "expected": expected})


def _await_services(watch: Watch) -> None:
    """Wait until the host's services have started."""
    # Fails on a host where some unit failed; whether that matters, the checks say.
    ready = ("/usr/bin/systemctl", "is-system-running", "--wait")
    watch.target.transport.run(ready, b"", deadline=300.0)


def _still_there(watch: Watch) -> NotConverged:
    said = ""
    with suppress(TransportError):
        said = watch.target.transport.run(JOBS, b"", deadline=30.0).out
    jobs = [" ".join(line.split()[1:]) for line in said.splitlines() if len(line.split()) > 1]
    jobs.sort(key=lambda job: not job.endswith(" running"))  # the others wait for those
    waits = f"; systemd still works on: {', '.join(jobs[:5])}" if jobs else ""
    return NotConverged(
        f"{watch.host}: said yes to the restart, but is still in the same boot{waits}",
        hint="see on the host `systemctl list-jobs` and `systemd-inhibit --list`; "
        "restart it by hand, then run the same command again",
    )


def reach(watch: Watch, deadline: float) -> tuple[str, str]:
    """Connect, however often it takes; boot id and running kernel.

    Raises TransportError at the deadline (seconds), HostKeyError at once, Cancelled, and
    ProvisionError for a lab host that nothing boots any more.
    """
    transport = watch.target.transport
    start = spoken = time.monotonic()
    refused: float | None = None
    wait = FIRST_WAIT
    while True:
        watch.check("while it was awaited")
        try:
            boot, kernel = transport.run(ASK, b"", deadline=30.0).out.split()
        except (TransportError, ValueError) as error:
            transport.close()
            if isinstance(error, ValueError):  # cut short by the shutdown
                error = TransportError(f"{watch.host}: does not say which boot it is in")
            now = time.monotonic()
            # Not counted from the shutdown, which refuses logins as well.
            refused = (refused or now) if isinstance(error, AccessError) else None
            if isinstance(error, HostKeyError) or now - start > deadline:
                raise error from None
            if refused and now - refused > BOOTING_DEADLINE:
                raise error from None
            if now - spoken > PATIENCE:
                if lost := watch.target.lost():
                    raise lost from error
                spoken = now
                watch.tell(
                    {"event": "waiting", "reason": f"waiting for {now - start:.0f} s: {error.what}"}
                )
        else:
            return boot, kernel
        time.sleep(wait)
        wait = min(wait * 1.5, LONGEST_WAIT)
