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
    KERNEL,
    REBOOT,
    RECORDED,
    STALE,
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
from scripted import APPLY, HOST, PROBE, SIMULATE, Outcome

from provision import engine, planner
from provision.errors import AccessError, ProvisionError, TransportError
from provision.resources import apt_pins, nouveau, unattended
from provision.target import Target
from provision.transport import Cost

pytestmark = pytest.mark.usefixtures("clock")

HERE, THERE = f"{BOOT}\n{KERNEL}\n", f"another-boot\n{KERNEL}\n"
FINISHED = probed()
WITHOUT_FILE = probed({"files": {nouveau.PATH: None}})
NO_MODULE = {"driver": {"loaded": None, "flavour": None}}
WITHOUT_MODULE = probed(NO_MODULE)
NO_DRIVER = {"dpkg": {"packages": {"nvidia-open": None}}}
NO_GCC = {"dpkg": {"packages": {"gcc": None}}}
WITHOUT_DRIVER = probed(NO_DRIVER)
WITHOUT_PACKAGES = probed(NO_GCC)


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


NO_SIZE = "it does not say how much room it takes"


@pytest.mark.parametrize("meanwhile", [probed(run="theirs"), probed({"journal": {"last": "r9"}})])
def test_what_apt_said_while_another_run_changed_the_host_is_asked_anew(meanwhile):
    said = json.dumps({transaction(raw(NO_GCC)).key: apt_answer(error=NO_SIZE)})
    outcome = Outcome(
        (PROBE, WITHOUT_PACKAGES), (SIMULATE, said), (PROBE, meanwhile), (PROBE, FINISHED)
    ).provision()
    assert outcome.words == ["probing", "planned", "stale", "probing", "planned"]


def test_what_apt_refuses_while_nobody_changes_the_host_ends_it():
    said = json.dumps({transaction(raw(NO_GCC)).key: apt_answer(error=NO_SIZE)})
    outcome = Outcome((PROBE, WITHOUT_PACKAGES), (SIMULATE, said), (PROBE, WITHOUT_PACKAGES))
    assert NO_SIZE in outcome.fail().what


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


def test_a_round_that_a_restart_came_before_is_planned_anew():
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, cut()),
        ("boot_id", HERE),  # it goes down
        ('"do": "follow"', cut()),
        ("boot_id", TransportError("h: can't be reached")),
        ("boot_id", THERE),
        ('"do": "follow"', events({"event": "lost"})),
        ("is-system-running", "running\n"),
        (PROBE, WITHOUT_FILE),
        (APPLY, events(*WHOLE_RUN)),
        (PROBE, FINISHED),
    ).provision()
    assert outcome.look.plan.empty
    (stale,) = (event for event in outcome.told if event["event"] == "stale")
    assert stale["reason"] == "the host restarted before the run began"


def test_a_saved_round_that_another_run_made_stale_is_told():
    outcome = Outcome((APPLY, events(STALE)))
    seen = engine.look(Outcome((PROBE, WITHOUT_FILE)).target)
    with pytest.raises(engine.Stale, match="another run was started in between") as caught:
        engine.apply_saved(outcome.target, seen, outcome.told.append)
    assert "run the same command again" in caught.value.hint


def test_an_order_says_after_which_run_it_was_planned():
    seen = engine.look(Outcome((PROBE, probed({"journal": {"last": "r7"}}))).target)
    assert engine.order(seen)["after"] == "r7"


def test_a_run_is_followed_on_over_a_broken_connection_and_told_what_is_known():
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, cut(START, output("1"), CHANGE)),
        ("boot_id", TransportError("h: can't be reached")),
        ("boot_id", HERE),
        ('"run": "r1", "events": 2, "lines": 1', events(DONE, END, lines=1)),
        (PROBE, FINISHED),
    ).provision()
    assert outcome.words == [
        *("probing", "planned", "start", "output", "change", "reconnecting", "done", "end"),
        *("probing", "planned"),
    ]


def test_a_host_that_is_rebooted_while_it_is_looked_at_is_looked_at_again():
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, events(*WHOLE_RUN)),
        (PROBE, TransportError("h: the connection broke")),
        ("boot_id", HERE),
        (PROBE, FINISHED),
    ).provision()
    assert outcome.words.count("reconnecting") == 1


def test_a_host_that_refuses_us_by_now_is_not_waited_for():
    outcome = Outcome(
        (PROBE, WITHOUT_FILE),
        (APPLY, events(*WHOLE_RUN)),
        (PROBE, AccessError("h: root@h refuses us")),
    )
    assert outcome.fail(AccessError).what == "h: root@h refuses us"


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


# --- restarts ----------------------------------------------------------------------------------


def used_by(unit):
    """What the probe prints of a host whose module is missing, and whose GPUs are used."""
    return probed(NO_MODULE, {"gpu_users": [{"pid": 7, "name": "x", "unit": unit}]})


RESTART = (
    (APPLY, events(START, CHANGE, DONE, REBOOT)),
    ("boot_id", HERE),
    ("boot_id", TransportError("h: can't be reached")),
    ("boot_id", THERE),
    ("is-system-running", "running\n"),
)


def test_a_module_that_nobody_uses_needs_no_restart():
    outcome = Outcome((PROBE, WITHOUT_MODULE), (APPLY, events(*WHOLE_RUN)), (PROBE, FINISHED))
    first = outcome.provision().told[1]["plan"]
    assert [change.id for change in first.now.changes] == ["reload:nvidia"]
    assert "rebooting" not in outcome.words


def test_after_a_restart_the_host_is_looked_at_again():
    outcome = Outcome((PROBE, used_by(None)), *RESTART, (PROBE, FINISHED)).provision()
    assert outcome.words[-4:] == ["rebooting", "back", "probing", "planned"]


def test_a_third_restart_is_refused_and_the_host_is_to_be_inspected():
    outcome = Outcome(
        *((PROBE, used_by("a.service")), *RESTART),
        *((PROBE, used_by("b.service")), *RESTART),
        (PROBE, used_by("c.service")),
    )
    error = outcome.fail()
    assert error.what == (
        "h: was restarted 2 times, and still: no nvidia module loaded; "
        "the GPUs are used by x (pid 7)"
    )
    assert "dkms status" in error.hint
    assert outcome.words.count("rebooting") == 2


def test_a_restart_that_another_run_forestalled_is_none():
    outcome = Outcome(
        *((PROBE, used_by("a.service")), (APPLY, events(STALE))),
        *((PROBE, used_by("b.service")), (APPLY, events(STALE))),
        *((PROBE, used_by("c.service")), *RESTART),
        (PROBE, FINISHED),
    ).provision()
    assert outcome.words.count("rebooting") == 1
