"""The loop against a host that answers from a script: what is done, told, and refused."""

import json

import pytest
from samples import (
    BAD_END,
    BOOT,
    CHANGE,
    DONE,
    END,
    FAILED,
    REBOOT,
    RECORDED,
    START,
    WANT,
    WHOLE_RUN,
    apt_answer,
    cut,
    events,
    output,
    probed,
    raw,
)

from provision import engine, inventory, planner
from provision.errors import ProvisionError, TransportError
from provision.resources import apt_pins, nouveau, unattended
from provision.target import Target
from provision.transport import Cost
from provision.transport.recorded import Recorded

HOST = inventory.Host(name="h", where="inventory.yaml:3", address="h", stack="lab")

PROBE, SIMULATE, APPLY, FOLLOW = (
    f'"do": "{do}"' for do in ("probe", "simulate", "apply", "follow")
)
"""What a request of each kind has in it."""


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(engine.time, "sleep", lambda seconds: None)


FINISHED = probed()
WITHOUT_FILE = probed({"files": {nouveau.PATH: None}})
WITHOUT_MODULE = probed({"driver": {"loaded": None, "flavour": None}})
NO_DRIVER = {"dpkg": {"packages": {"nvidia-open": None}}}
NO_GCC = {"dpkg": {"packages": {"gcc": None}}}
WITHOUT_DRIVER = probed(NO_DRIVER)
WITHOUT_PACKAGES = probed(NO_GCC)


class Outcome:
    """What became of a host: its last look, what was told, what it cost."""

    def __init__(self, *script):
        self.host = Recorded("h", list(script))
        self.target = Target(host=HOST, want=WANT, transport=self.host)
        self.told = []

    def provision(self):
        self.look = engine.provision(self.target, self.told.append)
        assert self.host.script == []
        return self

    def fail(self, error=engine.NotConverged):
        with pytest.raises(error) as caught:
            engine.provision(self.target, self.told.append)
        assert self.host.script == []
        return caught.value

    @property
    def words(self):
        return [event["event"] for event in self.told]

    @property
    def cost(self):
        return (self.host.cost.sessions, self.host.cost.execs)


def test_a_host_that_is_right_costs_one_session_and_one_command():
    outcome = Outcome((PROBE, FINISHED)).provision()
    assert outcome.look.plan.empty
    assert outcome.words == ["probing", "planned"]
    assert outcome.cost == (1, 1)


def test_what_differs_is_applied_and_looked_at_again():
    outcome = Outcome(
        (PROBE, WITHOUT_FILE), (APPLY, events(*WHOLE_RUN)), (PROBE, FINISHED)
    ).provision()
    assert outcome.look.plan.empty
    assert outcome.words == [
        *("probing", "planned", "start", "change", "done", "end"),
        *("probing", "planned"),
    ]
    assert outcome.cost == (1, 3)


def simulated(apt, *, install, remove=None):
    """What the host says of one transaction."""
    return json.dumps({apt.key: apt_answer(install=install, remove=remove or {})})


def transaction(facts):
    """The apt transaction that planning from facts comes to first."""
    (apt,) = planner.plan("h", WANT, facts).now.unasked
    return apt


def test_apt_is_asked_in_the_same_session_before_packages_are_planned():
    said = simulated(transaction(raw(NO_GCC)), install={"gcc": [None, "4:12"]}, remove={"old": "1"})
    outcome = Outcome((PROBE, WITHOUT_PACKAGES), (SIMULATE, said))
    look = engine.look(outcome.target)
    assert look.plan.now.unasked == ()
    assert engine.order(look)["allowed"] == {
        "install": {"gcc": [None, "4:12"]},
        "remove": {"old": "1"},
    }
    assert outcome.cost == (1, 2)


def test_a_host_that_leaves_a_transaction_out_is_not_asked_for_ever():
    outcome = Outcome((PROBE, WITHOUT_PACKAGES), (SIMULATE, "{}"))
    with pytest.raises(ProvisionError, match="h: apt said nothing of: apt-get install"):
        engine.look(outcome.target)
    assert outcome.host.script == []


def test_a_transaction_that_follows_from_apt_s_answer_is_asked_about_too():
    toolkit = "cuda-toolkit-12-8"
    first = transaction(raw(NO_DRIVER))
    takes = simulated(first, install={"nvidia-open": [None, "590"]}, remove={toolkit: "12.8.1-1"})
    then = transaction(raw(NO_DRIVER, {"simulations": json.loads(takes)}))
    brings = simulated(then, install={toolkit: [None, "12.8.1-1"]})
    outcome = Outcome((PROBE, WITHOUT_DRIVER), (SIMULATE, takes), (toolkit, brings))
    look = engine.look(outcome.target)
    assert look.plan.now.unasked == ()
    assert list(engine.order(look)["allowed"]["install"]) == ["nvidia-open", toolkit]
    assert outcome.host.script == []


def test_an_order_is_the_plan_s_own_actions():
    look = engine.look(Outcome((PROBE, WITHOUT_FILE)).target)
    order = json.loads(json.dumps(engine.order(look)))
    (change,) = look.plan.to_data()["rounds"][0]
    assert order["changes"] == [{"id": change["id"], "actions": change["actions"]}]
    assert order["fingerprint"] == look.plan.fingerprint


def test_a_blocked_plan_is_refused_before_anything_is_done():
    blocked = json.loads(WITHOUT_FILE)
    blocked["facts"]["dpkg"] = {"status": "timeout", "reason": "no answer within 30 s"}
    outcome = Outcome((PROBE, json.dumps(blocked)))
    error = outcome.fail()
    assert error.what == "h: preflight:dpkg: dpkg: no answer within 30 s"
    assert outcome.words == ["probing", "planned"]


def test_a_change_that_fails_is_told_with_reason_log_and_hint():
    script = (PROBE, WITHOUT_FILE), (APPLY, events(START, CHANGE, FAILED, BAD_END))
    error = Outcome(*script).fail()
    assert error.what == "h: a: sh exits 1"
    assert error.log == ("$ sh", "oops")
    assert error.hint == (
        "mend the cause and run the same command again; "
        "whole log on the host: /var/log/firstlight/r1.log"
    )
    assert error.exit_code == 1


def test_what_can_be_done_about_a_failure_stands_before_the_log():
    failed = {**FAILED, "hint": "seat the card"}
    error = Outcome((PROBE, WITHOUT_FILE), (APPLY, events(START, CHANGE, failed, BAD_END))).fail()
    assert error.hint == "seat the card; whole log on the host: /var/log/firstlight/r1.log"


@pytest.mark.parametrize(
    ("last", "what"),
    [
        ({"event": "lost"}, "h: the run on the host died without an end"),
        (
            {"event": "end", "ok": False, "reason": "another run holds this host"},
            "h: another run holds this host",
        ),
        ({"event": "end", "ok": False}, "h: the run failed"),
    ],
)
def test_a_run_that_does_not_end_well(last, what):
    error = Outcome((PROBE, WITHOUT_FILE), (APPLY, events(START, last))).fail()
    assert error.what == what
    assert "r1.log" in error.hint


def test_a_round_that_changed_nothing_is_never_taken_for_success():
    error = Outcome(
        (PROBE, WITHOUT_FILE), (APPLY, events(*WHOLE_RUN)), (PROBE, WITHOUT_FILE)
    ).fail()
    assert nouveau.PATH in error.what
    assert "was applied without an error, but the host is still 'no file'" in error.what
    assert "invoke facts" in error.hint


LACKS = (
    {"files": {apt_pins.PATH: None}},
    {"files": {unattended.PATH: None}},
    {"files": {nouveau.PATH: None}},
    {"dpkg": {"interrupted": True}},
)


def test_a_host_that_never_comes_to_rest_is_given_up():
    script = []
    for n in range(1, engine.ROUND_LIMIT + 1):
        some = [lack for bit, lack in enumerate(LACKS) if n >> bit & 1]
        script += [(PROBE, probed(*some)), (APPLY, events(*WHOLE_RUN))]
    error = Outcome(*script).fail()
    assert f"still not as wanted after {engine.ROUND_LIMIT} rounds: dpkg:dpkg" in error.what


STALE = {"event": "end", "ok": False, "reboot": False, "stale": True}


def test_a_round_that_another_run_made_stale_is_planned_anew():
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, events(STALE)),
        (PROBE, WITHOUT_FILE),
        (APPLY, events(*WHOLE_RUN)),
        (PROBE, FINISHED),
    ).provision()
    assert outcome.look.plan.empty
    assert outcome.words.count("stale") == 1


def test_a_saved_round_that_another_run_made_stale_is_told():
    outcome = Outcome((APPLY, events(STALE)))
    seen = engine.look(Outcome((PROBE, WITHOUT_FILE)).target)
    with pytest.raises(engine.Stale, match="another run was started in between") as caught:
        engine.apply_saved(outcome.target, seen, outcome.told.append)
    assert "run the same command again" in caught.value.hint


def test_an_order_says_after_which_run_it_was_planned():
    seen = engine.look(Outcome((PROBE, probed({"journal": {"last": "r7"}}))).target)
    assert engine.order(seen)["after"] == "r7"


def test_a_host_that_is_rebooted_while_it_is_looked_at_is_looked_at_again():
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, events(*WHOLE_RUN)),
        (PROBE, TransportError("h: the connection broke")),
        ("boot_id", BOOT),
        (PROBE, FINISHED),
    ).provision()
    assert outcome.words.count("reconnecting") == 1


def test_a_host_that_never_answered_is_not_waited_for():
    host = Refuses()
    target = Target(host=HOST, want=WANT, transport=host)
    with pytest.raises(TransportError, match="h: no route"):
        engine.provision(target, lambda event: None)
    assert host.asked == 1


class Refuses:
    """A host that can't be reached at all."""

    host = "h"

    def __init__(self):
        self.cost = Cost()
        self.asked = 0

    def run(self, argv, stdin, *, deadline, root=False):
        self.asked += 1
        raise TransportError("h: no route")

    def close(self):
        pass


@pytest.mark.parametrize("passed", range(len(WHOLE_RUN)))
def test_a_run_is_followed_on_over_a_broken_connection_and_each_event_told_once(passed):
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, cut(*WHOLE_RUN[:passed])),
        ("", TransportError("h: can't be reached")),
        ("", f"{BOOT}\n"),
        ('"do": "follow", "run": "r1"', events(*WHOLE_RUN)),
        (PROBE, FINISHED),
    ).provision()
    told = [event for event in outcome.told if event["event"] in ("start", "change", "done", "end")]
    assert told == [{"run": "r1", **event} for event in WHOLE_RUN]
    assert outcome.words.count("reconnecting") == 1


def test_a_connection_that_breaks_twice():
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, cut(START)),
        ("", BOOT),
        (FOLLOW, cut(START, CHANGE)),
        ("", BOOT),
        (FOLLOW, events(*WHOLE_RUN)),
        (PROBE, FINISHED),
    ).provision()
    assert outcome.words.count("reconnecting") == 2
    assert [word for word in outcome.words if word in ("start", "change", "done", "end")] == [
        *("start", "change", "done", "end"),
    ]


def test_output_and_events_are_each_told_once_though_they_come_in_another_order():
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, cut(START, CHANGE, output("1"))),
        ("", BOOT),
        (FOLLOW, events(output("1"), output("2"), START, CHANGE, DONE, END)),
        (PROBE, FINISHED),
    ).provision()
    told = [e.get("line", e["event"]) for e in outcome.told if "run" in e]
    assert sorted(told) == ["1", "2", "change", "done", "end", "start"]


def test_a_failure_behind_a_broken_connection_is_told_with_its_reason():
    error = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, cut(START, CHANGE)),
        ("", BOOT),
        (FOLLOW, events(START, CHANGE, FAILED, BAD_END)),
    ).fail()
    assert (error.what, error.log) == ("h: a: sh exits 1", ("$ sh", "oops"))


def test_a_connection_that_breaks_before_a_run_has_a_name_is_an_error():
    error = Outcome((PROBE, WITHOUT_FILE), (APPLY, [TransportError("h: gone")])).fail(
        TransportError
    )
    assert error.what == "h: gone"


def test_a_host_that_stays_away_while_its_run_goes_on(monkeypatch):
    monkeypatch.setattr(engine, "RECONNECT_DEADLINE", -1.0)
    error = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, cut(START)),
        ("", TransportError("h: can't be reached")),
    ).fail(TransportError)
    assert error.what == "h: can't be reached"


def test_heartbeats_are_not_told():
    alive = {"event": "alive"}
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, events(START, alive, CHANGE, alive, DONE, END)),
        (PROBE, FINISHED),
    ).provision()
    assert "alive" not in outcome.words
    assert "following" not in outcome.words


def test_a_run_that_is_going_on_is_joined_instead_of_a_second_one_started():
    outcome = Outcome(
        (PROBE, probed({"files": {nouveau.PATH: None}}, run="theirs")),
        ('"do": "follow", "run": "theirs"', events(*WHOLE_RUN, run="theirs")),
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
    error = Outcome(
        (PROBE, probed({"files": {nouveau.PATH: None}}, run="theirs")),
        (FOLLOW, events(START, CHANGE, FAILED, BAD_END, run="theirs")),
    ).fail()
    assert error.what == "h: a: sh exits 1"
    assert "theirs.log" in error.hint


def test_a_reboot_is_over_when_the_host_has_another_boot_id():
    away = ("", TransportError("h: can't be reached"))
    outcome = Outcome(
        (PROBE, WITHOUT_MODULE),
        (APPLY, events(START, CHANGE, DONE, REBOOT)),
        ("", f"{BOOT}\n"),
        ("", f"{BOOT}\n"),
        away,
        away,
        ("", "another-boot-id\n"),
        ("", "running\n"),
        (PROBE, FINISHED),
    ).provision()
    assert [word for word in outcome.words if word in ("rebooting", "back")] == [
        *("rebooting", "back"),
    ]


def test_a_host_that_says_yes_to_a_reboot_but_stays_up(monkeypatch):
    monkeypatch.setattr(engine, "REBOOT_DEADLINE", -1.0)
    error = Outcome(
        (PROBE, WITHOUT_MODULE), (APPLY, events(START, CHANGE, DONE, REBOOT)), ("", BOOT)
    ).fail()
    assert "still in the same boot" in error.what
    assert "systemctl list-jobs" in error.hint


def test_a_host_that_does_not_come_back(monkeypatch):
    monkeypatch.setattr(engine, "REBOOT_DEADLINE", -1.0)
    error = Outcome(
        (PROBE, WITHOUT_MODULE),
        (APPLY, events(START, CHANGE, DONE, REBOOT)),
        ("", TransportError("h: can't be reached")),
    ).fail(TransportError)
    assert error.exit_code == 1


def test_an_upload_goes_before_the_round_that_needs_it(monkeypatch):
    wheel = dict(WANT.uv.wheels)["x86_64"]
    monkeypatch.setattr(engine, "uv_wheel", lambda version, sha256: b"wheel of " + sha256.encode())
    path = next(iter(RECORDED["facts"]["uv"]["value"]))
    outcome = Outcome(
        (PROBE, probed({"uv": {path: None}})),
        (f"wheel of {wheel}", json.dumps({"event": "stored"})),
        (APPLY, events(*WHOLE_RUN)),
        (PROBE, FINISHED),
    ).provision()
    assert {"event": "uploading", "bytes": len(wheel) + 9} in outcome.told
