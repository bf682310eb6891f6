"""The commands behind the tasks: exit codes, saved plans, and what stands on stdout."""

import dataclasses
import json
import re
import sys
import threading

import pytest
from samples import BAD_END, DONE, END, FAILED, RECORDED, START, WANT, events, probed, raw

from provision import commands, engine, inventory
from provision.errors import ProvisionError, TransportError, UsageError
from provision.resources import nouveau
from provision.target import Target
from provision.transport.recorded import Recorded

INVENTORY = """\
default: a
hosts:
  a: {stack: lab}
  b: {stack: lab}
  c: {stack: lab}
groups:
  all: [a, b, c]
"""


FINISHED = probed()
WITHOUT_FILE = probed({"files": {nouveau.PATH: None}})
COLD = probed({"units": {"nvidia-persistenced.service": {"active": "failed"}}})
RUN = events(START, DONE, END)
UNREACHABLE = TransportError("no route", hint="look at the cable")


@pytest.fixture(autouse=True)
def an_inventory(tmp_path, monkeypatch):
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    monkeypatch.setenv(inventory.VARIABLE, str(tmp_path / "inventory.yaml"))


@pytest.fixture
def hosts(monkeypatch):
    """Gives each host of the inventory what it will answer."""
    scripts = {}
    wants = []

    def make(host, *, start=None, accept_new=False):
        transport = Recorded(host.name, scripts[host.name])
        return Target(host=host, want=wants[-1], transport=transport)

    def set_up(want=WANT, **answers):
        wants.append(want)
        scripts.update({name: [("", one) for one in script] for name, script in answers.items()})

    monkeypatch.setattr(commands, "target", make)
    yield set_up
    assert {name: script for name, script in scripts.items() if script} == {}


def plan(*names, groups=(), json=False, verbose=False, output=None):
    return commands.plan(names, groups, json=json, verbose=verbose, output=output, accept_new=False)


def provision(*names):
    return commands.provision(names, (), verbose=False, accept_new=False)


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


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [
        (FINISHED, FINISHED, 0),
        (FINISHED, COLD, 3),
        (COLD, UNREACHABLE, 1),
        (UNREACHABLE, FINISHED, 1),
        (UNREACHABLE, UsageError("wrong stack"), 2),
    ],
)
def test_the_worst_code_of_all_hosts_counts(hosts, a, b, code):
    hosts(a=[a], b=[b])
    assert verify("a", "b") == code


def test_one_host_s_failure_is_its_own(hosts, capsys):
    hosts(a=[UNREACHABLE], b=[FINISHED], c=[FINISHED])
    assert verify(groups=["all"]) == 1
    out, err = capsys.readouterr()
    assert err == "error: no route\n\nhint: look at the cable\n"
    checked = {line.split()[0] for line in out.splitlines() if "checks as expected" in line}
    assert checked == {"b", "c"}


def test_several_hosts_end_with_a_table_of_what_became_of_each(hosts, capsys):
    hosts(a=[UNREACHABLE], b=[FINISHED], c=[COLD])
    verify(groups=["all"])
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("│")] for line in lines if "│" in line]
    assert [row[:2] for row in rows] == [["a", "no route"], ["b", "done"], ["c", "differs"]]
    assert all(re.fullmatch(r"\d+\.\d s", row[2]) for row in rows)


def test_one_host_alone_has_no_table(hosts, capsys):
    hosts(a=[FINISHED])
    verify("a")
    assert "result" not in capsys.readouterr().out


def test_hosts_are_worked_on_side_by_side(hosts, monkeypatch):
    together = threading.Barrier(3, timeout=10)
    hosts(a=[FINISHED], b=[FINISHED], c=[FINISHED])
    look = engine.look

    def meet(ready):
        together.wait()
        return look(ready)

    monkeypatch.setattr(engine, "look", meet)
    assert verify(groups=["all"]) == 0


def in_turn(monkeypatch, first, then):
    """Let one host begin only when another is done."""
    done = threading.Event()
    work = commands._one

    def one(report, do, host):
        if host.name == then:
            assert done.wait(10)
        outcome = work(report, do, host)
        if host.name == first:
            done.set()
        return outcome

    monkeypatch.setattr(commands, "_one", one)


def test_data_of_several_hosts_stand_in_the_order_asked(hosts, monkeypatch, capsys):
    hosts(a=[FINISHED], b=[FINISHED])
    in_turn(monkeypatch, "b", "a")
    assert plan("a", "b", json=True) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["a", "b"]


@pytest.mark.parametrize(("names", "groups"), [(["z"], []), ([], ["z"]), (["a", "z"], [])])
def test_an_unknown_name_ends_2_before_any_host_is_asked(hosts, names, groups):
    hosts(a=[])
    assert plan(*names, groups=groups) == 2
    assert verify(*names, groups=groups) == 2


def test_a_wrong_inventory_ends_2(tmp_path, capsys):
    (tmp_path / "inventory.yaml").write_text("hosts: []\n")
    assert plan() == 2
    assert "inventory.yaml" in capsys.readouterr().err


def test_ctrl_c_ends_130_and_says_that_the_run_goes_on(capsys, monkeypatch):
    def interrupt(host):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands.os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as caught:
        commands.each(commands.Report(), ["a"], (), interrupt)
    assert caught.value.code == 130
    assert "the same command follows it" in capsys.readouterr().err


def test_without_names_it_is_the_default_host(hosts):
    hosts(a=[FINISHED])
    assert verify() == 0


# --- plan --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "code"), [(FINISHED, 0), (WITHOUT_FILE, 0)])
def test_a_plan_that_can_be_carried_out_ends_0(hosts, answer, code):
    hosts(a=[answer])
    assert plan("a") == code


def blocked():
    raw = json.loads(WITHOUT_FILE)
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


# --- saved plans -------------------------------------------------------------------------------


@pytest.fixture
def saved(hosts, tmp_path, capsys):
    """A plan of host a, saved."""
    file = tmp_path / "plan.json"
    hosts(a=[WITHOUT_FILE])
    assert plan("a", output=file) == 0
    capsys.readouterr()
    return file


def test_a_saved_plan_is_the_plan_as_json_for_us_alone(saved, hosts, capsys):
    hosts(a=[WITHOUT_FILE])
    plan("a", json=True)
    assert json.loads(saved.read_text()) == json.loads(capsys.readouterr().out)["a"]
    assert saved.stat().st_mode & 0o777 == 0o600


def test_a_saved_plan_is_carried_out_when_the_host_still_gives_it(saved, hosts, capsys):
    hosts(a=[WITHOUT_FILE, RUN, FINISHED])
    assert commands.apply(saved, verbose=False) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_a_saved_plan_is_not_carried_out_when_the_host_gives_another(saved, hosts, capsys):
    hosts(
        a=[
            probed(
                {"files": {nouveau.PATH: None}},
                {"uv": {"/x": "1"}},
                {"dpkg": {"interrupted": True}},
            )
        ]
    )
    assert commands.apply(saved, verbose=False) == 3
    assert "dpkg:dpkg: in the fresh plan alone" in capsys.readouterr().out


def test_a_saved_plan_for_a_host_that_is_right_by_now_does_nothing(saved, hosts, capsys):
    hosts(a=[FINISHED])
    assert commands.apply(saved, verbose=False) == 3
    assert "in the saved plan alone" in capsys.readouterr().out


def test_a_saved_plan_that_fails_ends_1(saved, hosts, capsys):
    hosts(a=[WITHOUT_FILE, events(START, FAILED, BAD_END)])
    assert commands.apply(saved, verbose=False) == 1
    assert "a: sh exits 1\n  | $ sh\n  | oops\n" in capsys.readouterr().err


def test_a_saved_plan_of_a_host_that_the_inventory_lost(saved, tmp_path, capsys):
    (tmp_path / "inventory.yaml").write_text("default: b\nhosts:\n  b: {stack: lab}\n")
    assert commands.apply(saved, verbose=False) == 2
    assert "there is no host 'a'" in capsys.readouterr().err


def test_a_saved_plan_that_changed_nothing_ends_1(saved, hosts, capsys):
    hosts(a=[WITHOUT_FILE, RUN, WITHOUT_FILE])
    assert commands.apply(saved, verbose=False) == 1
    assert "was applied without an error, but the host is still" in capsys.readouterr().err


def test_a_plan_that_is_blocked_is_not_saved(hosts, tmp_path):
    hosts(a=[blocked()])
    assert plan("a", output=tmp_path / "plan.json") == 1
    assert not (tmp_path / "plan.json").exists()


def test_a_saved_plan_that_is_blocked_is_not_carried_out(hosts, tmp_path, capsys):
    hosts(a=[blocked()])
    assert plan("a", json=True) == 1
    data = json.loads(capsys.readouterr().out)["a"]
    (tmp_path / "plan.json").write_text(json.dumps(data))
    hosts(a=[blocked()])
    assert commands.apply(tmp_path / "plan.json", verbose=False) == 1
    assert "dpkg: no answer" in capsys.readouterr().err


def test_a_plan_that_can_t_be_written_ends_2(hosts, tmp_path, capsys):
    hosts(a=[FINISHED])
    assert plan("a", output=tmp_path / "none" / "plan.json") == 2
    assert "plan.json: can't be written: No such file" in capsys.readouterr().err


def test_only_one_host_s_plan_is_saved(hosts, tmp_path, capsys):
    hosts(a=[FINISHED], b=[FINISHED])
    assert plan("a", "b", output=tmp_path / "plan.json") == 2
    assert "--output takes the plan of one host" in capsys.readouterr().err
    assert not (tmp_path / "plan.json").exists()


BAD = {
    "no JSON": "{",
    "an empty file": "",
    "a list": "[]",
    "a word": '"plan"',
    "no host": '{"fingerprint": "f", "rounds": []}',
    "no fingerprint": '{"host": "a", "rounds": []}',
    "no rounds": '{"host": "a", "fingerprint": "f"}',
    "facts": '{"schema": 1, "facts": {}}',
    "no schema": '{"host": "a", "fingerprint": "f", "rounds": []}',
    "a host that is a list": '{"schema": 1, "host": ["a"], "fingerprint": "f", "rounds": []}',
    "rounds that are a number": '{"schema": 1, "host": "a", "fingerprint": "f", "rounds": 5}',
}


@pytest.mark.parametrize("case", BAD, ids=BAD)
def test_a_file_that_is_no_plan_ends_2(tmp_path, capsys, case):
    file = tmp_path / "a plan.json"
    file.write_text(BAD[case])
    assert commands.apply(file, verbose=False) == 2
    err = capsys.readouterr().err
    assert "can't be read as a plan" in err
    assert f"invoke plan --output '{file}'" in err


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": 2, "host": "a", "fingerprint": "f", "rounds": []}',
        '{"schema": 1, "host": "a", "fingerprint": "f", "rounds": [[{}]]}',
    ],
)
def test_a_plan_of_another_shape_ends_2(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    assert commands.apply(tmp_path / "plan.json", verbose=False) == 2


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_file_that_is_not_there_or_a_folder_ends_2(tmp_path, name):
    assert commands.apply(tmp_path / name, verbose=False) == 2


# --- provision, verify, facts ------------------------------------------------------------------


def test_provision_ends_with_checks_on_the_last_look_and_the_cost(hosts, capsys):
    hosts(a=[FINISHED])
    assert provision("a") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "a  1 SSH session(s), 1 command(s)"
    assert "checks as expected" in lines[-2]


def test_provision_ends_3_when_a_check_finds_something(hosts, monkeypatch):
    hosts(a=[probed({"nvml": {"exit": 18, "driver": None}})])
    assert provision("a") == 3


def test_provision_ends_1_when_a_round_fails(hosts):
    hosts(a=[WITHOUT_FILE, [json.dumps({"run": "r1", "event": "lost"})]])
    assert provision("a") == 1


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


def test_a_host_that_is_no_lab_host_can_t_be_brought_up(capsys):
    assert commands.lab_up(["b"], [], fresh=False) == 2
    assert "inventory.yaml:4: b is no lab host" in capsys.readouterr().err


def test_every_error_of_ours_has_a_code_that_is_no_success():
    kinds = [ProvisionError, TransportError, UsageError]
    assert [kind("x").exit_code for kind in kinds] == [1, 1, 2]
