"""Plans that are saved, and carried out when the host still gives them."""

import json

import pytest
from samples import BAD_END, CHANGE, DONE, END, FAILED, START, events, probed

from provision.commands import hosts as commands
from provision.resources import nouveau

pytestmark = pytest.mark.usefixtures("an_inventory")

FINISHED = probed()
WITHOUT_FILE = probed({"files": {nouveau.PATH: None}})
RUN = events(START, DONE, END)


def plan(*names, json=False, output=None):
    return commands.plan(names, (), json=json, verbose=False, output=output, accept_new=False)


def apply(file, *, json=False, wait=False):
    return commands.apply(file, json=json, verbose=False, wait=wait)


def blocked(run=None):
    raw = json.loads(probed({"files": {nouveau.PATH: None}}, run=run))
    raw["facts"]["dpkg"] = {"status": "timeout", "reason": "no answer"}
    return json.dumps(raw)


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
    assert apply(saved) == 0
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
    assert apply(saved) == 3
    assert "dpkg:dpkg: in the fresh plan alone" in capsys.readouterr().out


def test_what_was_done_of_a_saved_plan_as_json(saved, hosts, capsys):
    hosts(a=[WITHOUT_FILE, events(START, CHANGE, DONE, END), FINISHED])
    assert apply(saved, json=True) == 0
    data = json.loads(capsys.readouterr().out)["a"]
    (run,) = data["runs"]
    assert (run["run"], run["result"], data["plan"]["empty"]) == ("r1", "done", True)
    assert [(step["id"], step["result"]) for step in run["steps"]] == [("a", "done")]


def test_how_the_host_s_plan_differs_as_json(saved, hosts, capsys):
    hosts(a=[FINISHED])
    assert apply(saved, json=True) == 3
    data = json.loads(capsys.readouterr().out)["a"]
    (change,) = json.loads(saved.read_text())["rounds"][0]
    assert data["differences"] == {change["id"]: "in the saved plan alone"}
    assert data["runs"] == []


def test_a_saved_plan_for_a_host_that_is_right_by_now_does_nothing(saved, hosts, capsys):
    hosts(a=[FINISHED])
    assert apply(saved) == 3
    assert "in the saved plan alone" in capsys.readouterr().out


def test_a_saved_plan_that_fails_ends_1(saved, hosts, capsys):
    hosts(a=[WITHOUT_FILE, events(START, FAILED, BAD_END)])
    assert apply(saved) == 1
    assert "a: sh exits 1\n  | $ sh\n  | oops\n" in capsys.readouterr().err


GOES_ON = probed({"files": {nouveau.PATH: None}}, run="theirs")
THEIRS = events(START, DONE, END, run="theirs")


def test_a_saved_plan_is_not_carried_out_while_another_run_goes_on(saved, hosts, capsys):
    hosts(a=[GOES_ON])
    assert apply(saved) == 1
    err = capsys.readouterr().err
    assert "a: run theirs of them@there is going on since" in err
    assert "--wait lets it end first" in err


def test_a_saved_plan_waits_for_another_run_if_that_is_wanted(saved, hosts, capsys):
    hosts(a=[GOES_ON, THEIRS, WITHOUT_FILE, RUN, FINISHED])
    assert apply(saved, wait=True) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_a_saved_plan_that_another_run_has_carried_out_does_nothing(saved, hosts, capsys):
    hosts(a=[GOES_ON, THEIRS, FINISHED])
    assert apply(saved, wait=True) == 3
    assert "in the saved plan alone" in capsys.readouterr().out


def test_a_saved_plan_of_a_host_that_the_inventory_lost(saved, tmp_path, capsys):
    (tmp_path / "inventory.yaml").write_text("default: b\nhosts:\n  b: {stack: lab}\n")
    assert apply(saved) == 2
    assert "there is no host 'a'" in capsys.readouterr().err


def test_a_saved_plan_that_changed_nothing_ends_1(saved, hosts, capsys):
    hosts(a=[WITHOUT_FILE, RUN, WITHOUT_FILE])
    assert apply(saved) == 1
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
    assert apply(tmp_path / "plan.json") == 1
    assert "dpkg: no answer" in capsys.readouterr().err


@pytest.mark.parametrize("run", [None, "theirs"])
def test_a_plan_that_is_blocked_is_not_saved_whatever_goes_on(hosts, tmp_path, run):
    hosts(a=[blocked(run)])
    assert plan("a", output=tmp_path / "plan.json") == 1
    assert list(tmp_path.glob("plan.json")) == []


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
    assert apply(file) == 2
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
    assert apply(tmp_path / "plan.json") == 2


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_file_that_is_not_there_or_a_folder_ends_2(tmp_path, name):
    assert apply(tmp_path / name) == 2
