"""The tasks on wheels that were built: exit codes, what is shown, what comes and goes."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from built import BESIDE, CELL, put, unreadable
from samples import WANT

from provision import wheelhouse
from provision.errors import TransportError
from provision.report import Report
from provision.wheelhouse import Manifest
from wheels import commands, index

pytestmark = pytest.mark.usefixtures("an_inventory")

WANTED = "flash_attn-2.8.3+cu128torch2.9.1-cp311-cp311-linux_x86_64.whl"
"""What stack torch29-cu128 takes on Debian 12."""
OLD = WANTED.replace("2.9.1", "2.8.0")


@pytest.fixture
def house(no_wheels):
    """A wheelhouse with a wheel that a stack takes, and one that none takes any more."""
    no_wheels.mkdir()
    wanted = put(no_wheels, WANTED, requires=("torch==2.9.1",))
    old = put(no_wheels, OLD, requires=("torch==2.8.0",))
    index.write(no_wheels)
    return SimpleNamespace(folder=no_wheels, wanted=wanted, old=old)


# --- list --------------------------------------------------------------------------------------


def test_each_wheel_is_listed_with_what_it_is_for(house, capsys):
    assert commands.listed(json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [OLD, WANTED]
    assert all("for 9.0, glibc 2.34" in line for line in lines)
    assert house.wanted.sha256 in lines[1]


def test_the_list_as_json_is_the_manifests(house, capsys):
    assert commands.listed(json=True) == 0
    data = json.loads(capsys.readouterr().out)
    assert [Manifest.model_validate(one) for one in data] == [house.old, house.wanted]


def prune(*, plan=False, yes=True, json=False):
    return commands.prune(plan=plan, yes=yes, json=json)


def listed(*, json=False):
    return commands.listed(json=json)


def verify(*, json=False):
    return commands.verify(json=json)


@pytest.mark.parametrize(
    ("command", "data"),
    [(listed, []), (verify, {}), (prune, {"unwanted": [], "removed": []})],
)
def test_an_empty_wheelhouse_says_so(no_wheels, capsys, command, data):
    assert command() == 0
    assert capsys.readouterr().out == f"wheelhouse  {no_wheels} holds no wheel yet\n"
    assert command(json=True) == 0
    assert json.loads(capsys.readouterr().out) == data
    assert not no_wheels.exists()


def test_a_wheel_has_one_manifest(house, capsys):
    manifest = (house.folder / f"{WANTED}.json").read_text()
    (house.folder / f"{OLD}.json").write_text(manifest)
    assert verify() == 3
    said = capsys.readouterr()
    assert f"{OLD}.json: not a wheel's manifest: it is that of {WANTED}" in said.err
    assert said.out.count("as its manifest says") == 1


@pytest.mark.parametrize("command", [listed, verify, prune])
def test_a_wheelhouse_that_is_not_there_is_none_without_a_wheel(
    no_wheels, monkeypatch, capsys, command
):
    monkeypatch.setenv(wheelhouse.VARIABLE, str(no_wheels))
    assert command(json=True) == 2
    said = capsys.readouterr()
    assert f"there is no folder {no_wheels}" in said.err
    assert json.loads(said.out).keys() == {"error", "hint"}


@pytest.mark.parametrize(("command", "code"), [(listed, 2), (verify, 3), (prune, 2)])
def test_a_manifest_that_is_none_is_an_error_and_nothing_goes(house, capsys, command, code):
    (house.folder / f"{OLD}.json").write_text("{}")
    before = sorted(house.folder.iterdir())
    assert command() == code
    assert f"{OLD}.json: not a wheel's manifest" in capsys.readouterr().err
    assert sorted(house.folder.iterdir()) == before


def test_in_the_data_of_prune_it_is_an_error(house, capsys):
    (house.folder / f"{OLD}.json").write_text("{}")
    assert prune(json=True) == 2
    data = json.loads(capsys.readouterr().out)
    assert f"{OLD}.json: not a wheel's manifest" in data["error"]
    assert data.keys() == {"error", "hint"}


def test_the_others_are_listed_beside_it(house, capsys):
    (house.folder / f"{OLD}.json").write_text("{}")
    assert listed(json=True) == 2
    good, bad = json.loads(capsys.readouterr().out)
    assert Manifest.model_validate(good) == house.wanted
    assert bad.keys() == {"file", "error", "hint"}
    assert bad["file"] == OLD


def test_the_others_are_verified_beside_it(house, capsys):
    (house.folder / f"{OLD}.json").write_text("{}")
    assert verify(json=True) == 3
    data = json.loads(capsys.readouterr().out)
    assert data[WANTED] == {"sha256": house.wanted.sha256}
    assert data[OLD].keys() == {"error", "hint"}


# --- verify ------------------------------------------------------------------------------------


def test_wheels_as_their_manifests_say_end_0(house, capsys):
    assert verify() == 0
    assert capsys.readouterr().out.count("as its manifest says") == 2


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"x"), lambda p: p.unlink()])
def test_a_wheel_that_is_damaged_or_gone_ends_3_and_the_others_are_looked_at(house, capsys, damage):
    damage(house.folder / OLD)
    assert verify() == 3
    out, err = capsys.readouterr()
    assert f"{OLD}: is gone or damaged" in err
    assert f"{WANTED}  as its manifest says" in out


def test_a_wheel_without_a_manifest_does_not_count_and_is_told(house, capsys):
    (house.folder / f"{OLD}.json").unlink()
    assert listed() == 0
    assert f"{OLD}  has no manifest and does not count" in capsys.readouterr().out
    assert verify(json=True) == 3
    out, err = capsys.readouterr()
    assert f"{OLD}: has no manifest, and does not count" in err
    assert json.loads(out)[OLD].keys() == {"error", "hint"}


def test_verify_as_json_has_each_wheel_and_what_is_wrong_with_it(house, capsys):
    (house.folder / OLD).unlink()
    assert verify(json=True) == 3
    data = json.loads(capsys.readouterr().out)
    assert data[WANTED] == {"sha256": house.wanted.sha256}
    assert data[OLD].keys() == {"sha256", "error", "hint"}
    assert f"{OLD}: is gone or damaged" in data[OLD]["error"]


def test_what_can_t_be_read_is_a_row_beside_the_others(house, capsys):
    unreadable(house.folder / OLD)
    unreadable(house.folder / f"{WANTED}.json")
    put(house.folder, CELL)
    assert verify(json=True) == 3
    data = json.loads(capsys.readouterr().out)
    assert f"{OLD}: can't be read: Is a directory" in data[OLD]["error"]
    assert f"{WANTED}.json: can't be read: Is a directory" in data[WANTED]["error"]
    assert "error" not in data[CELL]


# --- prune -------------------------------------------------------------------------------------


GOES = f"{OLD}  would go, 0.0 MB: no stack's lock takes it\n"


@pytest.fixture
def answers(monkeypatch):
    """What the user says when asked."""

    def set_up(said):
        monkeypatch.setattr(Report, "ask", lambda *_: said)

    return set_up


def files(house):
    return sorted(house.folder.rglob("*"))


def test_prune_only_shows_what_would_go(house, capsys):
    before = files(house)
    assert prune(plan=True) == 0
    assert capsys.readouterr().out == GOES
    assert files(house) == before


def test_prune_takes_what_no_lock_takes_with_all_that_stands_beside_it(house, capsys):
    assert prune() == 0
    assert capsys.readouterr().out == f"{GOES}{OLD}  removed\n"
    left = {path.name for path in house.folder.iterdir() if path.is_file()}
    assert left == {WANTED, *(f"{WANTED}{suffix}" for suffix in BESIDE)}
    page = (house.folder / "simple/flash-attn/index.html").read_text()
    assert (page.count("<a "), house.wanted.sha256 in page) == (1, True)
    assert prune() == 0
    assert "nothing to do" in capsys.readouterr().out


def test_the_user_is_asked_and_yes_removes(house, answers):
    answers("y\n")
    assert prune(yes=False) == 0
    assert not (house.folder / OLD).exists()


@pytest.mark.parametrize("said", ["\n", "n\n", ""])
def test_any_other_answer_keeps_all(house, answers, said):
    answers(said)
    before = files(house)
    assert prune(yes=False) == 0
    assert files(house) == before


def test_where_nobody_can_be_asked_it_is_shown_and_nothing_goes(house, capsys):
    before = files(house)
    assert prune(yes=False) == 2
    out, err = capsys.readouterr()
    assert out == GOES
    assert "hint: --yes removes them, --plan only shows them" in err
    assert files(house) == before


def test_what_can_t_be_removed_is_one_message(house, capsys):
    (house.folder / f"{OLD}.html").unlink()
    (house.folder / f"{OLD}.html").mkdir()
    assert prune() == 1
    assert f"error: {house.folder / OLD}.html: can't be changed: " in capsys.readouterr().err


def test_what_is_left_of_a_wheel_is_found_again(house, capsys):
    (house.folder / OLD).unlink()
    (house.folder / OLD).mkdir()
    assert prune() == 1
    (house.folder / OLD).rmdir()
    assert prune() == 0
    assert not list(house.folder.glob(f"{OLD}*"))


def test_what_only_begins_like_a_wheel_is_left_alone(house):
    (house.folder / f"{OLD}.mine").mkdir()
    assert prune() == 0
    assert [path.name for path in house.folder.glob(f"{OLD}*")] == [f"{OLD}.mine"]


@pytest.mark.parametrize(("plan", "removed"), [(True, []), (False, [OLD])])
def test_prune_as_json_has_what_no_stack_takes_and_what_was_removed(house, capsys, plan, removed):
    assert prune(plan=plan, json=True) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == {"unwanted": [OLD], "removed": removed}


# --- push --------------------------------------------------------------------------------------


@pytest.fixture
def wanting(house, hosts, tmp_path):
    """Hosts whose stack takes flash-attn; each answers from a script."""
    text = "default: a\nhosts:\n  a: {stack: torch29-cu128}\n  b: {stack: lab}\n"
    (tmp_path / "inventory.yaml").write_text(text)
    want = dataclasses.replace(WANT, wheelhouse=(house.old, house.wanted))

    def set_up(**answers):
        hosts(want=want, **answers)
        return house

    return set_up


def lacking(*sha256s):
    return json.dumps({"lacking": sha256s})


STORED = json.dumps({"stored": True})


def push(*hosts, json=False):
    return commands.push(hosts, (), json=json)


def test_push_copies_what_a_host_s_stack_wants_and_it_has_not(wanting, house, capsys):
    wanting(a=[lacking(house.wanted.sha256), STORED])
    assert push("a") == 0
    assert capsys.readouterr().out == f"a  {WANTED}: copied\n"


def test_what_is_there_is_not_copied_again(wanting, capsys):
    wanting(a=[lacking()])
    assert push("a") == 0
    assert capsys.readouterr().out == f"a  {WANTED}: there already\n"


def test_where_no_wheel_is_taken_push_says_so(wanting, capsys):
    wanting(b=[lacking()])
    assert push("b") == 0
    assert (
        capsys.readouterr().out
        == "b  nothing to do: the wheelhouse has no wheel that stack lab takes\n"
    )


def test_from_a_wheelhouse_that_is_not_there_nothing_is_pushed(wanting, house, monkeypatch, capsys):
    wanting(b=[])
    for path in house.folder.rglob("*"):
        path.is_file() and path.unlink()
    monkeypatch.setattr(wheelhouse.load, "__defaults__", (house.folder / "gone",))
    monkeypatch.setenv(wheelhouse.VARIABLE, "gone")
    assert push("b", json=True) == 2
    assert "there is no folder" in json.loads(capsys.readouterr().out)["error"]


def test_a_wheel_that_is_damaged_is_not_copied(wanting, house, capsys):
    wanting(a=[lacking(house.wanted.sha256)])
    (house.folder / WANTED).write_bytes(b"x")
    assert push("a") == 1
    assert "is gone or damaged" in capsys.readouterr().err


def test_a_host_that_can_t_be_reached_does_not_keep_the_others_from_theirs(wanting, capsys):
    wanting(a=[TransportError("a: no route")], b=[lacking()])
    assert push("a", "b") == 1
    assert "a: no route" in capsys.readouterr().err


def test_push_as_json_has_what_was_copied_and_what_was_there(wanting, house, capsys):
    wanting(a=[lacking(house.wanted.sha256), STORED], b=[TransportError("b: no route")])
    assert push("a", "b", json=True) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["a"] == {"copied": [WANTED], "there": []}
    assert data["b"]["error"] == "b: no route"
