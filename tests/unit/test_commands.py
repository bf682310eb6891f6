"""The commands behind the tasks: exit codes, and what stands on stdout."""

import dataclasses
import json

import pytest
from samples import (
    BAD_END,
    CHANGE,
    DONE,
    END,
    FAILED,
    RECORDED,
    START,
    WANT,
    events,
    output,
    probed,
    raw,
)

from provision.commands import hosts as commands
from provision.commands import lab as lab_commands
from provision.commands import runs
from provision.errors import ProvisionError, TransportError, UsageError
from provision.resources import nouveau

pytestmark = pytest.mark.usefixtures("an_inventory")

FINISHED = probed()
WITHOUT_FILE = probed({"files": {nouveau.PATH: None}})
COLD = probed({"units": {"nvidia-persistenced.service": {"active": "failed"}}})
UNLOADED = probed({"nvml": {"exit": 18, "driver": None}})
RUN = events(START, DONE, END)
UNREACHABLE = TransportError("no route", hint="look at the cable")


def plan(*names, groups=(), json=False, verbose=False, output=None):
    return commands.plan(names, groups, json=json, verbose=verbose, output=output, accept_new=False)


def provision(*names, json=False):
    return commands.provision(names, (), json=json, verbose=False, accept_new=False)


def verify(*names, groups=(), json=False):
    return commands.verify(names, groups, json=json, verbose=False)


# --- exit codes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "code"),
    [(FINISHED, 0), (COLD, 3), (WITHOUT_FILE, 3), (UNREACHABLE, 1), ("hello", 1)],
    ids=["right", "a finding", "drift", "unreachable", "no answer of ours"],
)
def test_verify_ends_0_only_for_a_host_that_is_right(hosts, answer, code):
    hosts(a=[answer])
    assert verify("a") == code


def test_a_wrong_inventory_ends_2(tmp_path, capsys):
    (tmp_path / "inventory.yaml").write_text("hosts: []\n")
    assert plan() == 2
    assert "inventory.yaml" in capsys.readouterr().err


# --- plan --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "code"), [(FINISHED, 0), (WITHOUT_FILE, 0)])
def test_a_plan_that_can_be_carried_out_ends_0(hosts, answer, code):
    hosts(a=[answer])
    assert plan("a") == code


def blocked(run=None):
    raw = json.loads(probed({"files": {nouveau.PATH: None}}, run=run))
    raw["facts"]["dpkg"] = {"status": "timeout", "reason": "no answer"}
    return json.dumps(raw)


def test_a_blocked_plan_ends_1(hosts, capsys):
    hosts(a=[blocked()])
    assert plan("a") == 1
    assert "can't be planned: dpkg: no answer" in capsys.readouterr().out


def test_a_plan_as_json_stands_alone_on_stdout(hosts, capsys):
    hosts(a=[WITHOUT_FILE])
    assert plan("a", json=True) == 0
    data = json.loads(capsys.readouterr().out)["a"]
    assert (data["host"], data["empty"]) == ("a", False)


def test_plans_of_several_hosts_stand_by_their_names(hosts, capsys):
    hosts(a=[FINISHED], b=[WITHOUT_FILE])
    assert plan("a", "b", json=True) == 0
    data = json.loads(capsys.readouterr().out)
    assert {name: one["empty"] for name, one in data.items()} == {"a": True, "b": False}


def test_in_the_data_a_failure_stands_as_an_error(hosts, capsys):
    hosts(a=[UNREACHABLE], b=[FINISHED])
    assert plan("a", "b", json=True) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["a"] == {"error": "no route", "hint": "look at the cable"}
    assert data["b"]["empty"]


# --- provision, verify, facts ------------------------------------------------------------------


def test_provision_ends_with_checks_on_the_last_look_and_the_cost(hosts, capsys):
    hosts(a=[FINISHED])
    assert provision("a") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "a  1 SSH session(s), 1 command(s)"
    assert "checks as expected" in lines[-2]


def test_provision_ends_3_when_a_check_finds_something(hosts, monkeypatch):
    hosts(a=[UNLOADED])
    assert provision("a") == 3


def test_provision_ends_1_when_a_round_fails(hosts):
    hosts(a=[WITHOUT_FILE, [json.dumps({"run": "r1", "event": "lost"})]])
    assert provision("a") == 1


def test_what_was_done_as_data(hosts, capsys):
    hosts(a=[WITHOUT_FILE, events(START, CHANGE, output("x"), DONE, END), FINISHED], b=[UNLOADED])
    assert provision("a", "b", json=True) == 3
    out, err = capsys.readouterr()
    data = json.loads(out)
    (run,) = data["a"]["runs"]
    (step,) = run["steps"]
    assert (run["run"], run["result"], run["who"], run["reboot"]) == ("r1", "done", "me", False)
    assert (step["id"], step["result"], step["seconds"]) == ("a", "done", 0.1)
    assert (data["a"]["restarts"], data["a"]["awaited"]) == (0, [])
    assert {row["ok"] for row in data["a"]["findings"]} == {True}
    assert {row["id"] for row in data["b"]["findings"] if not row["ok"]} == {"driver.nvml"}
    assert "checks as expected" in err


def test_what_was_done_before_a_failure_stands_beside_it(hosts, capsys):
    hosts(a=[WITHOUT_FILE, events(START, CHANGE, FAILED, BAD_END)], b=["hello"])
    assert provision("a", "b", json=True) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["a"]["error"] == "a: a: sh exits 1"
    (step,) = data["a"]["runs"][0]["steps"]
    assert (step["result"], step["reason"], step["log"]) == (
        *("failed", "sh exits 1"),
        ["$ sh", "oops"],
    )
    assert data["b"].keys() == {"runs", "restarts", "error", "hint"}
    assert (data["b"]["runs"], data["b"]["restarts"]) == ([], 0)


def test_a_run_that_was_lost_has_died(hosts, capsys):
    hosts(a=[WITHOUT_FILE, events({**START, "boot": "x"}, CHANGE, {"event": "lost"})])
    assert provision("a", json=True) == 1
    (run,) = json.loads(capsys.readouterr().out)["a"]["runs"]
    assert (run["result"], run["restarted"], run["steps"][0]["result"]) == ("died", False, "begun")


def test_what_is_awaited_ends_provision_with_0_and_verify_with_3(hosts):
    main = WANT.stack.environment["main"].model_copy(update={"wheels": ("own-wheel==1.0",)})
    stack = WANT.stack.model_copy(update={"environment": {"main": main}})
    hosts(want=dataclasses.replace(WANT, stack=stack), a=[FINISHED], b=[FINISHED])
    assert provision("a") == 0
    assert verify("b") == 3


def test_verify_as_json(hosts, capsys):
    hosts(a=[COLD], b=[UNREACHABLE])
    assert verify("a", "b", json=True) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["b"]["error"] == "no route"
    assert "service" in [row["id"] for row in data["a"] if not row["ok"]]


def test_facts_as_json_are_the_probe_s_own(hosts, capsys):
    hosts(a=[FINISHED], b=[FINISHED], c=[WITHOUT_FILE])
    assert commands.facts(["a"], [], json=True) == 0
    assert json.loads(capsys.readouterr().out) == {"a": raw()}
    assert commands.facts(["b", "c"], [], json=True) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"b", "c"}


def test_facts_for_people_name_every_collector(hosts, capsys):
    hosts(a=[FINISHED])
    assert commands.facts(["a"], [], json=False) == 0
    out = capsys.readouterr().out
    assert [name for name in RECORDED["facts"] if name not in out] == []


# --- runs ------------------------------------------------------------------------------------


GOES_ON = probed({"files": {nouveau.PATH: None}}, run="theirs")


def cancel(*names, json=False):
    return runs.cancel(names, (), json=json)


def test_the_run_that_goes_on_is_asked_to_stop(hosts, capsys):
    hosts(a=[GOES_ON, '{"cancelled": true}'])
    assert cancel("a") == 0
    assert capsys.readouterr().out == "a  run theirs stops before its next change\n"


@pytest.mark.parametrize("answers", [[FINISHED], [GOES_ON, '{"cancelled": false}']])
def test_a_host_without_a_run_has_none_to_stop(hosts, capsys, answers):
    hosts(a=answers)
    assert cancel("a") == 0
    assert capsys.readouterr().out == "a  no run is going on\n"


def test_which_runs_were_asked_to_stop_as_json(hosts, capsys):
    hosts(a=[GOES_ON, '{"cancelled": true}'], b=[FINISHED])
    assert cancel("a", "b", json=True) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == {"a": {"cancelled": "theirs"}, "b": {"cancelled": None}}


@pytest.mark.parametrize("answer", [GOES_ON, blocked(run="theirs")])
def test_a_plan_while_a_run_goes_on_is_of_a_moment_and_no_failure(hosts, capsys, answer):
    hosts(a=[answer])
    assert plan("a") == 0
    told, note, *_ = capsys.readouterr().out.splitlines()
    assert told.startswith("a  run theirs of them@there is going on since")
    assert note == "a  what follows is a moment of that run, not to act on"


JOURNAL = [
    {"event": "start", "run": "r1", "time": 0.0, "who": "me@here", "changes": ["a"]},
    {"event": "change", "run": "r1", "id": "a"},
]


def history(*names, run="", json=False):
    return runs.history(names, (), run=run, json=json)


def test_what_was_done_as_json(hosts, capsys):
    hosts(a=[json.dumps({"events": JOURNAL, "running": "r1"})], b=['{"events": []}'])
    assert history("a", "b", json=True) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["b"] == []
    (run,) = data["a"]
    assert (run["run"], run["result"], run["steps"][0]["id"]) == ("r1", "going on", "a")


@pytest.mark.parametrize(("run", "shown"), [("", 0), ("r1", 1)])
def test_what_was_done_for_people(hosts, capsys, run, shown):
    hosts(a=[json.dumps({"events": JOURNAL})])
    assert history("a", run=run) == 0
    out = capsys.readouterr().out
    assert "died at a: it was killed" in out
    assert out.count("… a: no end") == shown


def test_a_run_that_no_journal_has_ends_2(hosts, capsys):
    hosts(a=[json.dumps({"events": JOURNAL})])
    assert history("a", run="r9") == 2
    assert "a: its journal has no run r9" in capsys.readouterr().err


def test_a_host_that_is_no_lab_host_can_t_be_brought_up(capsys):
    assert lab_commands.up(["b"], [], fresh=False) == 2
    assert "inventory.yaml:4: b is no lab host" in capsys.readouterr().err


def test_every_error_of_ours_has_a_code_that_is_no_success():
    kinds = [ProvisionError, TransportError, UsageError]
    assert [kind("x").exit_code for kind in kinds] == [1, 1, 2]
