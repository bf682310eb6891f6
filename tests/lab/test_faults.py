"""Whatever goes wrong in the midst of a change: the same command once more, and the same end."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tests.lab import account, matrix
from tests.lab.faults import FAULTS, HELD, KINDS, Fault, Kind
from tests.lab.trial import NAME, Trial, is_change

CANCELLED = FAULTS["cancelled"]
QUICK = (
    ("reload", "connection cut"),
    ("reload", "controller killed"),
    ("toolkit", "host crashed"),
    ("toolkit", "run killed"),
    ("reboot", "host crashed"),
    ("reboot", "cancelled"),
)
"""These run every time; all of them with -m matrix."""
AS_WANTED = re.compile(r"nothing to do: as stack lab wants\n.* (\d+) of \1 checks as expected")
"""What a command says that has found nothing more to do."""


@pytest.mark.parametrize(("kind", "fault"), QUICK)
def test_some_cells(layer, tmp_path, kind, fault):
    _cell(layer, tmp_path, kind, fault)


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "fault"), list(itertools.product(KINDS, FAULTS)))
def test_every_cell(layer, tmp_path, kind, fault):
    _cell(layer, tmp_path, kind, fault)


def _cell(layer, folder: Path, name: str, fault_name: str) -> None:
    kind, fault = KINDS[name], FAULTS[fault_name]
    label = layer(name)
    with matrix.cell(name, fault_name) as cell, Trial(NAME, label, folder) as trial:
        begun = kind
        if fault is CANCELLED and (other := kind.before or kind.after):
            trial.mess(KINDS[other].disk)
            begun = KINDS[other] if kind.before else kind
        if kind.live:
            trial.mess(kind.live)
        command = trial.start("provision")
        trial.await_change(begun.change, begun.moment)
        with trial.paused():  # long enough to be hit
            fault.strike(trial, command)
        code, said = command.end()
        cell.wrong += _first(kind, fault, code, said)
        if fault is CANCELLED and not kind.alone:
            cell.wrong += _cancelled(trial, begun)
        code, again = trial.run("provision")
        if code or not AS_WANTED.search(again):
            cell.wrong.append(f"the second command ends with {code}: {again[-500:]}")
        cell.wrong += _after(trial, kind, fault)
        account_of_it = f"{said}\n---\n{again}\n---\n{trial.journal()}"
    assert cell.wrong == [], account_of_it


def _first(kind: Kind, fault: Fault, code: int, said: str) -> list[str]:
    """What is wrong with how the command ended that the fault hit."""
    codes = fault.codes
    if not kind.moment:
        codes = (0, *codes)  # it may be over by then
    if "Traceback" in said:
        return [f"the command ends in a traceback: {said[-500:]}"]
    if code not in codes:
        return [f"the command ends with {code} instead of {codes}: {said[-500:]}"]
    if code == 1 and "the run on the host died without an end" not in said:
        return [f"the command does not say that the run died: {said[-500:]}"]
    return []


def _cancelled(trial: Trial, begun: Kind) -> list[str]:
    """A cancelled run says so, by whom, and did not begin what came next."""
    events = trial.events()
    by = [event["by"] for event in events if event["event"] == "cancelled"]
    wrong = [] if len(by) == 1 and "@" in by[0] else [f"cancelled by {by}"]
    began = [event["id"] for event in events if event["event"] == "change"]
    if len(began) != 1 or not is_change(events[1], begun.change):
        wrong.append(f"went on to {began[1:]}")
    return wrong


def _after(trial: Trial, kind: Kind, fault: Fault) -> list[str]:
    """What is wrong with the host and its account at the end of all."""
    events = trial.events()
    wrong = account.disorder(events, torn=fault.torn) + account.repeated(events)
    wrong += account.left_behind(trial, HELD)
    most = kind.restarts + fault.boots
    if trial.boots() > most:
        wrong.append(f"booted {trial.boots()} times, {most} at most are due")
    return wrong
