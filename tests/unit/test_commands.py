"""The commands behind the tasks: exit codes, saved plans, and what stands on stdout."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import pytest

from provision import commands, facts, inventory, planner, stack
from provision.errors import ProvisionError, TransportError, UsageError
from provision.inventory import Gpus
from provision.resources import nouveau
from provision.target import Target
from provision.transport import Recorded
from provision.want import Want

RECORDED = json.loads((Path(__file__).parent / "captures" / "facts-finished.json").read_text())
WANT = Want(
    stack=stack.load("lab"),
    uv=stack.load_uv(),
    gpus=Gpus(count=2, model="NVIDIA RTX PRO 6000 Blackwell Server Edition"),
    repository=stack.Repository(
        url="http://deb.example/cuda/debian12",
        fingerprint="685771FB645A3AA402ADB97C09D34A4D3B14C1AA",
    ),
)
INVENTORY = """\
default: a
hosts:
  a: {stack: lab}
  b: {stack: lab}
  c: {stack: lab}
groups:
  all: [a, b, c]
"""


@cache
def settled():
    """The recorded host, brought to what is wanted today."""
    raw = RECORDED
    for one in planner.plan("h", WANT, raw).rounds:
        assert one.actionable
        raw = facts.merge(raw, *(change.makes for change in one.changes))
    return raw


def finished(*promises):
    """What the probe of such a host prints; with what differs."""
    return json.dumps(facts.merge(settled(), *promises))


FINISHED = finished()
WITHOUT_FILE = finished({"files": {nouveau.PATH: None}})
COLD = finished({"units": {"nvidia-persistenced.service": {"active": "failed"}}})
RUN = [
    json.dumps({"run": "r1", **event})
    for event in (
        {"event": "start"},
        {"event": "done", "id": "a", "seconds": 0.0},
        {"event": "end", "ok": True, "reboot": False},
    )
]
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

    def make(host, *, start=None):
        transport = Recorded(host.name, scripts[host.name])
        return Target(host=host, want=wants[-1], transport=transport)

    def set_up(want=WANT, **answers):
        wants.append(want)
        scripts.update({name: [("", one) for one in script] for name, script in answers.items()})

    monkeypatch.setattr(commands, "target", make)
    yield set_up
    assert {name: script for name, script in scripts.items() if script} == {}


def plan(*names, groups=(), json=False, verbose=False, output=None):
    return commands.plan(names, groups, json=json, verbose=verbose, output=output)


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
    assert [line.split()[0] for line in out.splitlines()] == ["b", "c"]


@pytest.mark.parametrize(("names", "groups"), [(["z"], []), ([], ["z"]), (["a", "z"], [])])
def test_an_unknown_name_ends_2_before_any_host_is_asked(hosts, names, groups):
    hosts(a=[])
    assert plan(*names, groups=groups) == 2
    assert verify(*names, groups=groups) == 2


def test_a_wrong_inventory_ends_2(tmp_path, capsys):
    (tmp_path / "inventory.yaml").write_text("hosts: []\n")
    assert plan() == 2
    assert "inventory.yaml" in capsys.readouterr().err


def test_ctrl_c_ends_130_and_says_that_the_run_goes_on(capsys):
    def interrupt(host):
        raise KeyboardInterrupt

    assert commands.each(commands.Report(), ["a"], (), interrupt) == 130
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
    data = json.loads(capsys.readouterr().out)
    assert (data["host"], data["empty"]) == ("a", False)


def test_plans_of_several_hosts_are_a_list(hosts, capsys):
    hosts(a=[FINISHED], b=[WITHOUT_FILE])
    assert plan("a", "b", json=True) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(one["host"], one["empty"]) for one in data] == [("a", True), ("b", False)]


def test_a_plan_of_an_unreachable_host_is_no_plan(hosts, capsys):
    hosts(a=[UNREACHABLE])
    assert plan("a", json=True) == 1
    assert json.loads(capsys.readouterr().out) == []


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
    assert json.loads(saved.read_text()) == json.loads(capsys.readouterr().out)
    assert saved.stat().st_mode & 0o777 == 0o600


def test_a_saved_plan_is_carried_out_when_the_host_still_gives_it(saved, hosts, capsys):
    hosts(a=[WITHOUT_FILE, RUN, FINISHED])
    assert commands.apply(saved, verbose=False) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_a_saved_plan_is_not_carried_out_when_the_host_gives_another(saved, hosts, capsys):
    hosts(
        a=[
            finished(
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
    failed = [
        json.dumps(
            {"run": "r1", "event": "failed", "id": "a", "reason": "sh exits 1", "log": ["x"]}
        ),
        json.dumps({"run": "r1", "event": "end", "ok": False}),
    ]
    hosts(a=[WITHOUT_FILE, failed])
    assert commands.apply(saved, verbose=False) == 1
    assert "a: sh exits 1\n  | x\n" in capsys.readouterr().err


def test_a_saved_plan_of_a_host_that_the_inventory_lost(saved, tmp_path, capsys):
    (tmp_path / "inventory.yaml").write_text("default: b\nhosts:\n  b: {stack: lab}\n")
    assert commands.apply(saved, verbose=False) == 2
    assert "there is no host 'a'" in capsys.readouterr().err


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
}


@pytest.mark.parametrize("case", BAD, ids=BAD)
def test_a_file_that_is_no_plan_ends_2(tmp_path, capsys, case):
    file = tmp_path / "a plan.json"
    file.write_text(BAD[case])
    assert commands.apply(file, verbose=False) == 2
    err = capsys.readouterr().err
    assert "can't be read as a plan" in err
    assert f"invoke plan --output '{file}'" in err


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_file_that_is_not_there_or_a_folder_ends_2(tmp_path, name):
    assert commands.apply(tmp_path / name, verbose=False) == 2


# --- provision, verify, facts ------------------------------------------------------------------


def test_provision_ends_with_checks_on_the_last_look_and_the_cost(hosts, capsys):
    hosts(a=[FINISHED])
    assert commands.provision(["a"], [], verbose=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "a  1 SSH session(s), 1 command(s)"
    assert "checks as expected" in lines[-2]


def test_provision_ends_3_when_a_check_finds_something(hosts, monkeypatch):
    hosts(a=[finished({"nvml": {"exit": 18, "driver": None}})])
    assert commands.provision(["a"], [], verbose=False) == 3


def test_provision_ends_1_when_a_round_fails(hosts):
    hosts(a=[WITHOUT_FILE, [json.dumps({"run": "r1", "event": "lost"})]])
    assert commands.provision(["a"], [], verbose=False) == 1


def test_what_is_awaited_ends_provision_with_0_and_verify_with_3(hosts):
    main = WANT.stack.environment["main"].model_copy(update={"wheels": ("own-wheel==1.0",)})
    stack = WANT.stack.model_copy(update={"environment": {"main": main}})
    hosts(want=dataclasses.replace(WANT, stack=stack), a=[FINISHED], b=[FINISHED])
    assert commands.provision(["a"], [], verbose=False) == 0
    assert verify("b") == 3


def test_verify_as_json(hosts, capsys):
    hosts(a=[COLD], b=[UNREACHABLE])
    assert verify("a", "b", json=True) == 1
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["a"]
    assert "service" in [row["id"] for row in data["a"] if not row["ok"]]


def test_facts_as_json_are_the_probe_s_own(hosts, capsys):
    hosts(a=[FINISHED], b=[FINISHED], c=[WITHOUT_FILE])
    assert commands.facts(["a"], [], json=True) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(FINISHED)
    assert commands.facts(["b", "c"], [], json=True) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["b", "c"]


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
