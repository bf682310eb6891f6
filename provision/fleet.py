"""Works on several hosts at a time: one host's failure is its own, an interruption asks first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn

from provision import inventory
from provision.errors import DIFFERENCES, DONE, FAILED, INTERRUPTED, ProvisionError, UsageError
from provision.inventory import Host
from provision.report import Outcome, Report
from provision.stop import Stop

AT_A_TIME = 16
"""Hosts that are worked on together; logins to one bastion are fewer (see transport)."""
SEVERITY = (UsageError.exit_code, INTERRUPTED, FAILED, DIFFERENCES)
"""Exit codes, the worst first."""
QUESTION = "runs that were started go on: [d]etach, or [c]ancel them before their next change? [d] "


def each(
    report: Report,
    hosts: Sequence[str],
    groups: Sequence[str],
    do: Callable[[Host], int],
    found: dict[str, Any] | None = None,
    *,
    stop: Stop | None = None,
) -> int:
    """Work on every host asked for, several at a time.

    Returns the worst code of all. In `found`, the data by host, a failure stands as an error
    beside what was done; that of no host, such as an unknown name, stands alone.
    `stop`, of what starts runs on the hosts, is set when the user interrupts and wants them
    cancelled.
    """
    try:
        chosen = inventory.load().select(hosts, groups)
    except ProvisionError as error:
        report.error(error)
        if found is not None:
            found.update(failure(error))
        return error.exit_code
    pool = ThreadPoolExecutor(max_workers=AT_A_TIME)
    begun = [pool.submit(_one, report, do, host) for host in chosen]
    outcomes = _await(report, begun, [host.name for host in chosen], stop)
    for outcome in outcomes:
        if outcome.error:
            report.error(outcome.error)
            if found is not None:
                before = found.get(outcome.host, {})
                found[outcome.host] = {**before, **failure(outcome.error)}
    if found is not None:  # in the order asked, whoever was done first
        found.update({host.name: found.pop(host.name) for host in chosen if host.name in found})
    if len(outcomes) > 1:
        report.outcomes(outcomes)
    codes = [outcome.code for outcome in outcomes]
    return next((code for code in SEVERITY if code in codes), DONE)


def refused(report: Report, error: ProvisionError, *, json: bool) -> int:
    """Say why nothing was begun, also as data where that was asked for; returns the exit code."""
    report.error(error)
    if json:
        report.data(failure(error))
    return error.exit_code


def failure(error: ProvisionError) -> dict[str, str]:
    """An error as JSON has it."""
    return {"error": error.what, "hint": error.hint}


def _await(
    report: Report,
    begun: Sequence[Future[Outcome]],
    names: Sequence[str],
    stop: Stop | None,
) -> list[Outcome]:
    """All outcomes; after an interruption those of an orderly end, if that is what is wanted."""
    try:
        with report.working(names):
            return [future.result() for future in begun]
    except KeyboardInterrupt:
        if stop is None or not _cancels(report, stop):
            _detach(report, runs=stop is not None)
    try:
        with report.working(
            [name for name, future in zip(names, begun, strict=True) if not future.done()]
        ):
            return [future.result() for future in begun]
    except KeyboardInterrupt:
        _detach(report, runs=True)


def _cancels(report: Report, stop: Stop) -> bool:
    """Whether the user wants the runs cancelled; nobody can be asked without a terminal.

    Nothing new is begun while the question is open.
    """
    stop.asking()
    try:
        if report.ask(QUESTION).strip().lower() not in ("c", "cancel"):
            return False
    except (KeyboardInterrupt, EOFError):
        return False
    stop.set()
    stop.answered()
    return True


def _detach(report: Report, *, runs: bool) -> NoReturn:
    follow = (
        "a run that was started goes on there; the same command follows it, "
        "`invoke cancel` stops it before its next change"
    )
    again = "the same command begins again"
    report.error(ProvisionError("interrupted", hint=follow if runs else again))
    os._exit(INTERRUPTED)  # threads that wait for a host would hold the process


def _one(report: Report, do: Callable[[Host], int], host: Host) -> Outcome:
    start = time.monotonic()
    code = DONE
    failure: ProvisionError | None = None
    try:
        code = do(host)
    except ProvisionError as error:
        failure = error
    except OSError as error:
        failure = ProvisionError(f"{host.name}: {error}")
    code = failure.exit_code if failure else code
    report.done(host.name)
    seconds = time.monotonic() - start
    return Outcome(host=host.name, code=code, seconds=seconds, error=failure)
