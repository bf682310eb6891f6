"""No input makes a traceback: whatever is wrong ends in one error of ours, in one line.

What hosts say and what stands in their journals is spoilt in many ways; any other exception than
ours fails the test by itself. The user's own files: test_fuzz_files.py.
"""

import contextlib
import json

import pytest
from harmless import Host, printing, refused, shown, told, words_are_ours
from hypothesis import given
from hypothesis import strategies as st
from samples import (
    BAD_END,
    CANCELLED,
    CANCELLED_END,
    FAILED,
    REBOOT,
    RECORDED,
    STALE,
    WANT,
    WHOLE_RUN,
    Says,
    events,
    output,
    probed,
)
from spoilt import spoilt, spoilt_text, values

from provision import checks, engine, facts, follow, history, inventory, planner, wire
from provision.errors import ProvisionError
from provision.remote import journal
from provision.report import Report
from provision.resources import nouveau
from provision.target import Target
from tests.scenarios import scenario
from tests.steady import steady

SITUATIONS = [(one.want, one.facts) for one in map(scenario.load, scenario.names())]
SITUATIONS.append((WANT, RECORDED))
HOST = inventory.Host(name="h", where="inventory.yaml:3", address="h", stack="lab")


@st.composite
def hosts(draw):
    """What is wanted of a host, and what the probe of a broken one says."""
    want, answer = draw(st.sampled_from(SITUATIONS))
    part = draw(spoilt(answer["facts"]))
    return want, {**answer, "facts": part}


FIELDS = tuple(f"facts: {name}" for name in facts.Facts.__annotations__)


@steady(250)
@given(hosts())
def test_facts_are_read_or_it_is_said_where_they_are_wrong(case):
    want, answer = case
    try:
        seen = facts.parse(answer)
    except ProvisionError as error:
        refused(error, FIELDS)
        return
    try:
        plan = planner.plan("h", want, answer)
    except ProvisionError as error:
        told(error, FIELDS)
        return
    checks.check(want, seen, plan)
    words_are_ours(plan)
    json.dumps(plan.to_data())


@steady(100)
@given(values)
def test_anything_else_is_no_facts(answer):
    for one in ({"schema": answer, "facts": {}}, {"schema": 1, "facts": answer}, {"x": answer}):
        with contextlib.suppress(ProvisionError):
            assert isinstance(facts.parse(one), facts.Facts)


# --- what hosts say ----------------------------------------------------------------------------


@steady(200)
@given(hosts(), st.data())
def test_a_host_that_answers_anything_is_looked_at_or_refused(case, data):
    want, answer = case
    host = Host([json.dumps(answer)], lambda said: data.draw(spoilt(said) | st.just(said)))
    try:
        seen = engine.look(Target(host=HOST, want=want, transport=host))
    except ProvisionError as error:
        told(error)
        return
    shown(want, seen.facts, seen.plan)
    json.dumps(engine.order(seen))


WAITING = {"event": "waiting", "reason": "another program holds dpkg's lock"}
MORE = (output("x"), WAITING, FAILED, CANCELLED, BAD_END, CANCELLED_END, STALE, REBOOT)
RUN = [json.loads(line) for line in events(*WHOLE_RUN[:2], *MORE, *WHOLE_RUN[2:])]
"""Every kind of event that a run has; a real one ends but once."""
lines = st.one_of(
    st.sampled_from(RUN).map(json.dumps),
    st.sampled_from(RUN).flatmap(spoilt).map(json.dumps),
    st.sampled_from(RUN).map(json.dumps).flatmap(spoilt_text),
    st.text(max_size=20),
)
runs = st.one_of(
    spoilt(RUN).map(lambda run: [json.dumps(event) for event in run]), st.lists(lines, max_size=6)
)


@steady(250)
@given(runs)
def test_a_run_that_tells_anything_is_followed_or_refused(lines):
    host = Host([probed({"files": {nouveau.PATH: None}}), probed()], lines=lines)
    report = Report(verbose=True)
    with printing(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.time, "sleep", lambda seconds: None)
        for name in ("AWAY_DEADLINE", "SAME_BOOT_DEADLINE", "RECONNECT_DEADLINE"):
            patch.setattr(follow, name, -1.0)
        target = Target(host=HOST, want=WANT, transport=host)
        try:
            engine.provision(target, lambda event: report.event("h", event))
        except ProvisionError as error:
            told(error)


PAST = [{"time": 1.8e9, "fingerprint": "f", "boot": "b", **event} for event in RUN]


@steady(150)
@given(
    spoilt({"events": PAST, "running": "r1", "boot": "b"})
    | spoilt(PAST).map(lambda past: {"events": past})
)
def test_a_history_that_tells_anything_is_shown_or_refused(answer):
    try:
        past = history.select(wire.history(Says(json.dumps(answer)), 20), "", "h")
    except ProvisionError as error:
        told(error)
        return
    with printing():
        Report().history("h", past, whole=True)
        Report().data([one.to_data() for one in past])


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda host: wire.history(host, 20), "history: events"),
        (lambda host: wire.lacking(host, []), "lacking: lacking"),
    ],
)
@pytest.mark.parametrize("answer", ["{}", '{"events": 5, "lacking": {}}'])
def test_a_list_that_is_none_is_one_error(ask, what, answer):
    with pytest.raises(ProvisionError, match=f"^h: asked for {what}: expected a list, got "):
        ask(Says(answer))


# --- the journal -------------------------------------------------------------------------------


LINES = [json.dumps(event) for event in PAST]


@pytest.fixture(scope="module")
def journal_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "JOURNAL", file)
        yield file


@steady(250)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(LINES).map(str.encode),
            st.sampled_from(LINES).flatmap(spoilt_text).map(lambda t: t.encode("utf-8", "replace")),
            st.sampled_from(PAST).flatmap(spoilt).map(lambda event: json.dumps(event).encode()),
            values.map(lambda value: json.dumps(value).encode()),
            st.binary(max_size=20),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_a_journal_of_any_content_gives_its_events_alone(journal_file, lines, torn):
    journal_file.write_bytes(b"\n".join(lines) + (b"" if torn else b"\n"))
    tail = journal.Tail("r1")
    found = [*tail.new(), *tail.new()]
    assert {type(event["event"]) for event in found} <= {str}
    assert {event["run"] for event in found} <= {"r1"}
    assert isinstance(journal.last_run(), str | None)
    assert {type(name) for name in journal.failed("b")} <= {str}
    assert {type(event["event"]) for event in journal.latest(3)} <= {str}
    whole = [
        line for line in lines[: -1 if torn else None] if line.decode("utf-8", "replace") in LINES
    ]
    assert len(found) >= len(whole)
