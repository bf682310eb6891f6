"""A host on which another run goes on: who joins it, waits for it or stops it."""

import pytest
from samples import (
    BAD_END,
    CANCELLED,
    CANCELLED_END,
    CHANGE,
    FAILED,
    START,
    WHOLE_RUN,
    events,
    probed,
)
from scripted import CANCEL, PROBE, Outcome

from provision import engine
from provision.errors import ProvisionError
from provision.resources import nouveau

FINISHED = probed()
WITHOUT_FILE = probed({"files": {nouveau.PATH: None}})
GOES_ON = probed({"files": {nouveau.PATH: None}}, run="theirs")


def theirs(*said):
    """Their run is followed from where its log stands."""
    return ('"run": "theirs", "events": 0, "lines": null', events(*said, run="theirs", lines=40))


def test_a_run_that_is_going_on_is_joined_instead_of_a_second_one_started():
    outcome = Outcome(
        (PROBE, GOES_ON),
        theirs(*WHOLE_RUN),
        (PROBE, FINISHED),
    ).provision()
    assert outcome.look.plan.empty
    assert outcome.words[:2] == ["probing", "joining"]
    assert outcome.told[1] == {
        "event": "joining",
        "run": "theirs",
        "who": "them@there",
        "since": 0.0,
    }


def test_joining_a_run_that_fails_is_a_failure_of_ours():
    error = Outcome((PROBE, GOES_ON), theirs(START, CHANGE, FAILED, BAD_END)).fail()
    assert error.what == "h: a: sh exits 1"
    assert "theirs.log" in error.hint


def free(outcome, *, wait):
    return engine.free(outcome.target, engine.look(outcome.target), outcome.told.append, wait=wait)


@pytest.mark.parametrize("wait", [True, False])
def test_a_host_on_which_no_run_goes_on_is_free(wait):
    outcome = Outcome((PROBE, FINISHED))
    assert free(outcome, wait=wait).plan.empty
    assert (outcome.told, outcome.host.script) == ([], [])


def test_a_host_that_somebody_holds_is_not_waited_for_unless_that_is_wanted():
    outcome = Outcome((PROBE, GOES_ON))
    with pytest.raises(ProvisionError) as caught:
        free(outcome, wait=False)
    assert caught.value.what.startswith("h: run theirs of them@there is going on since ")
    assert "--wait" in caught.value.hint
    assert "invoke cancel" in caught.value.hint
    assert outcome.host.script == []


@pytest.mark.parametrize(
    "said",
    [WHOLE_RUN, (START, CHANGE, FAILED, BAD_END), (START, CANCELLED, CANCELLED_END)],
    ids=["done", "failed", "cancelled"],
)
def test_a_host_that_somebody_holds_is_free_however_their_run_ends(said):
    outcome = Outcome((PROBE, GOES_ON), theirs(*said), (PROBE, WITHOUT_FILE))
    assert not free(outcome, wait=True).plan.empty
    assert outcome.words[:2] == ["joining", "start"]
    assert outcome.host.script == []


def test_a_host_is_free_when_the_last_of_several_runs_is_over():
    outcome = Outcome(
        (PROBE, GOES_ON),
        theirs(*WHOLE_RUN),
        (PROBE, GOES_ON),
        theirs(*WHOLE_RUN),
        (PROBE, FINISHED),
    )
    assert free(outcome, wait=True).plan.empty
    assert outcome.words.count("joining") == 2


def test_joining_a_run_that_somebody_stops_is_an_end_of_ours():
    error = Outcome((PROBE, GOES_ON), theirs(START, CANCELLED, CANCELLED_END)).fail(
        engine.Cancelled
    )
    assert error.what == "h: cancelled by them@there before b; what was done stays"


def test_nothing_more_is_begun_once_an_end_is_asked_for():
    outcome = Outcome((PROBE, WITHOUT_FILE))
    outcome.stop.set()
    assert outcome.fail(engine.Cancelled).what == "h: cancelled before the next round"


def cancelled(*script):
    outcome = Outcome(*script)
    run = engine.cancel(outcome.target, engine.look(outcome.target))
    assert outcome.host.script == []
    return run


def test_the_run_that_goes_on_is_asked_to_stop():
    asked = f'{CANCEL}, "run": "theirs", "by": "{engine.me()}"'
    assert cancelled((PROBE, GOES_ON), (asked, '{"cancelled": true}')) == "theirs"


def test_where_no_run_goes_on_nobody_is_asked():
    assert cancelled((PROBE, FINISHED)) is None


def test_a_run_that_is_over_by_then_is_not_named():
    assert cancelled((PROBE, GOES_ON), (CANCEL, '{"cancelled": false}')) is None
