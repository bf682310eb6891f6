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
    seen,
)

from provision import baseline, wire
from provision.checks.recorded import record
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


# --- topology, baseline ------------------------------------------------------------------------


def test_topology_for_people_and_as_json(hosts, capsys):
    hosts(a=[FINISHED], b=[FINISHED])
    assert commands.topology(["a"], [], json=False) == 0
    assert "→ tensor parallelism" in capsys.readouterr().out
    assert commands.topology(["b"], [], json=True) == 0
    data = json.loads(capsys.readouterr().out)["b"]
    assert data["links"] == [["X", "PIX"], ["PIX", "X"]]
    assert data["meaning"][0].startswith("tensor parallelism")
    assert (data["gpus"], data["missing"]) == ([0, 1], [])


def test_topology_says_which_gpu_is_missing(hosts, capsys):
    card = raw()["facts"]["gpus"]["value"][1]
    left = probed(
        gpus={"status": "ok", "value": [{**card, "index": 0}]},
        topology={"status": "ok", "value": {"links": [["X"]], "numa": [0], "cpus": ["0"]}},
        pci={"status": "ok", "value": []},
    )
    hosts(want=dataclasses.replace(WANT, baseline=record("a", seen())), a=[left])
    assert commands.topology(["a"], [], json=True) == 0
    data = json.loads(capsys.readouterr().out)["a"]
    assert data["gpus"] == [1]
    assert data["missing"] == ["GPU 0 is absent (slot 0000:06:00.0)"]
    hosts(a=[left])
    assert commands.topology(["a"], [], json=False) == 0
    out = capsys.readouterr().out
    assert "! 1 GPU is absent, and nobody knows which: those left are counted anew" in out
    assert "--record-baseline" in out


def test_a_topology_that_can_t_be_told_ends_1_and_says_why(hosts, capsys):
    hosts(a=[probed(topology={"status": "timeout", "reason": "no answer within 30 s"})])
    assert commands.topology(["a"], [], json=False) == 1
    assert "can't be told: no answer within 30 s" in capsys.readouterr().err


def test_a_host_is_recorded_and_then_held_to_that(hosts, capsys):
    hosts(a=[FINISHED])
    assert commands.verify(["a"], [], json=False, verbose=True, record_baseline=True) == 0
    out = capsys.readouterr().out
    assert "recorded as it is" in out
    assert "although" not in out
    assert "gpu.card  GPU 1: card GPU-" in out
    assert len(baseline.load("a").gpus) == 2


def test_what_is_recorded_below_a_profile_or_of_another_model_is_named(hosts, capsys):
    cards = raw()["facts"]["gpus"]["value"]
    cards[0] |= {"name": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"}
    cards[1] |= {"link_width": 8, "power_limit": 450.0}
    hosts(a=[probed(gpus={"status": "ok", "value": cards})])
    assert commands.verify(["a"], [], json=False, verbose=False, record_baseline=True) == 3
    out = capsys.readouterr().out
    warned = [line.partition("a fault: ")[2] for line in out.splitlines() if "although" in line]
    assert [one.partition(" instead")[0] for one in warned] == [
        "GPU 0: model NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "GPU 1: PCIe x8",
        "GPU 1: power limit 450 W",
    ]
    assert baseline.load("a").gpus[1].link_width == 8


def test_a_host_without_all_its_gpus_is_not_recorded(hosts, capsys):
    want = dataclasses.replace(WANT, gpus=WANT.gpus.model_copy(update={"count": 3}))
    hosts(want=want, a=[FINISHED])
    assert commands.verify(["a"], [], json=False, verbose=False, record_baseline=True) == 1
    assert "a: has 2 GPUs, and the inventory expects 3" in capsys.readouterr().err
    assert baseline.load("a") is None


# --- active ------------------------------------------------------------------------------------


def try_(python=""):
    return commands.verify(["a"], [], json=False, verbose=True, active=True, python=python)


def trials(**answers):
    """What a host's trials say, of which only some came to an end."""
    failed = {"status": "failed", "reason": "exits 1: no"}
    names = ("kernel", "bandwidth", "p2p", "allreduce", "allreduce_host", "flash_attn", "vllm")
    said = dict.fromkeys(names, failed) | answers
    return json.dumps({"trials": said, "after": raw()["facts"]["gpus"]})


def test_gpus_are_made_to_work_by_the_interpreter_that_is_named(hosts, capsys):
    kernels = [{"gpu": gpu, "exact": True, "error": 0.0} for gpu in (0, 1)]
    hosts(a=[FINISHED, trials(kernel={"status": "ok", "value": kernels})])
    assert try_("/usr/bin/python3") == 3
    out = capsys.readouterr().out
    assert "making its GPUs work" in out
    assert "active.kernel  GPU 1: it computes right" in out
    assert "active.bandwidth  host: bandwidth unknown instead of a result" in out


TRIED = json.loads(trials())


def test_by_an_environment_s_own_interpreter_where_it_has_torch(hosts, monkeypatch):
    with_torch = {"environments": {"main": {"distributions": {"torch": "2.9.1"}}}}
    asked = []
    monkeypatch.setattr(wire, "attempt", lambda _, python: asked.append(python) or TRIED)
    hosts(a=[probed(with_torch)])
    assert try_() == 3
    assert asked == ["/opt/firstlight/environments/main/current/bin/python"]


def test_without_torch_anywhere_an_interpreter_is_asked_for_beside_the_other_rows(hosts, capsys):
    hosts(a=[FINISHED])
    assert try_() == 3
    out = capsys.readouterr().out
    assert "gpu.link_width  GPU 1: PCIe x16" in out
    assert "active.trials  host: trials unknown instead of outcomes" in out
    assert "a: no environment there has torch; name an interpreter" in out
    assert "--python PATH" in out


def test_gpus_in_use_are_not_made_to_work(hosts, capsys):
    users = {"status": "ok", "value": [{"pid": 7, "name": "vllm", "unit": None}]}
    hosts(a=[probed(gpu_users=users)])
    assert try_("/usr/bin/python3") == 3
    out = capsys.readouterr().out
    assert "in use by vllm (7)" in out
    assert "gpu.link_width  GPU 1: PCIe x16" in out


def test_an_interpreter_that_is_none_is_wrong_input_told_once_beside_the_other_rows(hosts, capsys):
    absent = {"status": "absent", "reason": "/nope: No such file or directory"}
    names = json.loads(trials())["trials"]
    hosts(a=[FINISHED, trials(**dict.fromkeys(names, absent))])
    assert try_("/nope") == 2
    out = capsys.readouterr().out
    assert "gpu.link_width  GPU 1: PCIe x16" in out
    assert out.count("a: /nope: No such file or directory; name an interpreter") == 1
    assert "active.kernel" not in out


def test_an_interpreter_without_active_is_wrong_usage(capsys):
    code = commands.verify(["a"], [], json=False, verbose=False, python="/usr/bin/python3")
    assert code == 2
    assert "--python names the interpreter of --active" in capsys.readouterr().err


def test_what_gpus_did_is_recorded_and_kept_until_they_are_made_to_work_anew(hosts):
    bandwidth = [{"gpu": gpu, "to_gpu": 55.0 + gpu, "to_host": 54.0 + gpu} for gpu in (0, 1)]
    said = trials(bandwidth={"status": "ok", "value": bandwidth})
    options = {"json": False, "verbose": False, "record_baseline": True}
    hosts(a=[FINISHED, said])
    assert commands.verify(["a"], [], **options, active=True, python="/usr/bin/python3") == 3
    taken = baseline.load("a").figures
    assert taken.host_gb_s == {"0000:06:00.0": 54.0, "0000:07:00.0": 55.0}
    assert (taken.latency_us, taken.bus_gb_s) == (None, None)
    hosts(want=dataclasses.replace(WANT, baseline=baseline.load("a")), a=[FINISHED])
    assert commands.verify(["a"], [], **options) == 0
    assert baseline.load("a").figures == taken


def test_trials_of_another_shape_are_the_host_s_fault(hosts, capsys):
    hosts(a=[FINISHED, "{}"])
    assert try_("/usr/bin/python3") == 1
    assert "a: trials: expected a mapping" in capsys.readouterr().out


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
