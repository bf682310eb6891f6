"""The command behind the build tasks: what is planned, what ends it and how."""

import json

import pytest
from built import CELL, put, unreadable
from samples import TIMEOUT, probed

from provision import stack, wheelhouse
from wheels import commands, lock, profile, recipe
from wheels.commands import _bytes as size

pytestmark = pytest.mark.usefixtures("an_inventory")


@pytest.fixture
def profiles(no_wheels, tmp_path, monkeypatch):
    """No recipe was measured yet, and no wheel built."""
    monkeypatch.setattr(profile, "FOLDER", tmp_path)


def build(name="lab-kernels", hosts=("a",), *, plan=True, **changes):
    asked = {"force": False, "budget": None, "gate": True, "json": False, "verbose": False}
    return commands.make(name, hosts, plan=plan, **{**asked, **changes})


def test_the_plan_says_what_for_whom_and_in_how_much(hosts, profiles, capsys):
    hosts(a=[probed()])
    assert build(budget="9GiB") == 0
    out = capsys.readouterr().out
    for part in (
        "a  lab-kernels 1.0+cu131, with CUDA 13.1",
        "for GPUs of compute capability 9.0 (the recipe's)",
        "budget 9.0 GiB (declared), 2 processors",
        "the gate lets compilers in as memory allows",
        "the wheelhouse has none that fits",
    ):
        assert part in out


def test_the_plan_as_json_stands_alone_on_stdout(hosts, profiles, capsys):
    hosts(a=[probed()])
    assert build(json=True, gate=False, budget="9216 MiB") == 0
    data = json.loads(capsys.readouterr().out)["a"]
    assert (data["wheel"], data["version"]) == ("lab-kernels", "1.0+cu131")
    assert (data["budget"], data["jobs"], data["there"]) == (9 * 2**30, 1, None)
    files = (recipe.FOLDER / "lab-kernels" / "csrc").glob("*.cu")
    assert {one["unit"] for one in data["units"]} == {path.name for path in files}


@pytest.mark.parametrize("plan", [True, False])
def test_what_the_wheelhouse_has_is_not_built_again(hosts, no_wheels, profiles, capsys, plan):
    no_wheels.mkdir()
    put(no_wheels, CELL)
    hosts(a=[probed()])
    assert build(plan=plan) == 0
    assert f"a  nothing to do: the wheelhouse has {CELL}" in capsys.readouterr().out


def test_the_first_wheel_is_planned_into_a_folder_that_is_yet_to_be_made(
    hosts, no_wheels, profiles, monkeypatch, capsys
):
    monkeypatch.setenv(wheelhouse.VARIABLE, str(no_wheels))
    hosts(a=[probed()])
    assert build() == 0
    assert not no_wheels.exists()


def test_unless_it_is_asked_for(hosts, no_wheels, profiles, capsys):
    no_wheels.mkdir()
    put(no_wheels, CELL)
    hosts(a=[probed()])
    assert build(force=True) == 0
    out = capsys.readouterr().out
    assert "nothing to do" not in out
    assert "it was asked for" in out


def test_a_plan_with_an_obstacle_ends_1_and_says_what_to_do(hosts, profiles, monkeypatch, capsys):
    installed = {"status": "ok", "value": {"gcc": None, "g++": None, "make": None}}
    hosts(a=[probed(compilers=installed)])
    assert build() == 1
    out = capsys.readouterr().out
    assert "there is no gcc, which nvcc needs" in out
    assert "invoke provision --host a" in out
    hosts(a=[probed(compilers=installed)])
    assert build(json=True) == 1
    data = json.loads(capsys.readouterr().out)["a"]
    assert data["error"] == "there is no gcc, which nvcc needs"
    assert data["hint"] == "invoke provision --host a"


def test_a_fact_that_is_not_known_is_one_message(hosts, profiles, capsys):
    hosts(a=[probed(memory=TIMEOUT)])
    assert build() == 1
    err = capsys.readouterr().err
    assert err == "error: a: the build can't be planned: memory: no answer within 30 s\n"


def test_a_plan_changes_nothing_and_is_shown_while_a_run_goes_on_there(hosts, profiles, capsys):
    hosts(a=[probed(run="theirs")])
    assert build() == 0
    assert "a  round 1 of 1, now" in capsys.readouterr().out


def test_a_wheel_that_is_damaged_does_not_count_as_there(hosts, no_wheels, profiles, capsys):
    no_wheels.mkdir()
    put(no_wheels, CELL)
    (no_wheels / CELL).write_bytes(b"another")
    hosts(a=[probed()])
    assert build() == 0
    out = capsys.readouterr().out
    assert "is gone or damaged" in out
    assert "wheel:lab-kernels: 1.0+cu131 for 9.0 → 1.0+cu131 for 9.0" in out


def test_one_that_can_t_be_read_is_not_built_anew(hosts, no_wheels, profiles, capsys):
    no_wheels.mkdir()
    put(no_wheels, CELL)
    unreadable(no_wheels / CELL)
    hosts(a=[probed()])
    assert build() == 2
    assert f"{CELL}: can't be read: Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"source": recipe.Source(folder="lab-kernels", units=("csrx/*.cu",))},
            "lab-kernels.toml: source.units: no file matches csrx/*.cu",
        ),
        ({"versions": {"torch": "2.9.1"}, "against": ("torch",)}, "its lock is out of date"),
    ],
)
def test_a_recipe_that_is_not_what_lies_beside_it_ends_2(
    hosts, profiles, monkeypatch, capsys, changes, says
):
    hosts(a=[probed()])
    changed = recipe.load("lab-kernels").model_copy(update=changes)
    monkeypatch.setattr(recipe, "load", lambda name: changed)
    assert build() == 2
    assert says in capsys.readouterr().err


def test_a_mistake_of_the_recipe_is_told_before_a_lock_that_is_not_there_yet(
    hosts, profiles, monkeypatch, tmp_path, capsys
):
    hosts(a=[probed()])
    source = recipe.Source(folder="lab-kernels", units=("csrx/*.cu",))
    changed = recipe.load("lab-kernels").model_copy(update={"source": source})
    monkeypatch.setattr(recipe, "load", lambda name: changed)
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    assert build() == 2
    assert "source.units: no file matches" in capsys.readouterr().err


def test_without_a_host_the_inventory_s_builder_builds(hosts, profiles, tmp_path, capsys):
    path = tmp_path / "inventory.yaml"
    path.write_text(path.read_text() + "builder: b\n")
    hosts(b=[probed()])
    assert build(hosts=()) == 0
    assert capsys.readouterr().out.startswith("b  ")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"name": "lab-kernel"}, "there is no recipe 'lab-kernel'"),
        ({"name": ""}, "build takes --recipe"),
        ({"hosts": ("a", "b")}, "a wheel is built on one host"),
        ({"hosts": ("d",)}, "there is no host 'd'"),
        ({"budget": "much"}, "--budget 'much': expected a size such as 64GiB or 900MiB"),
    ],
)
def test_a_wrong_wish_ends_2_before_any_host_is_asked(profiles, capsys, asked, says):
    assert build(**asked, json=True) == 2
    out, err = capsys.readouterr()
    assert says in err
    data = json.loads(out)
    assert says in data["error"]
    assert data.keys() == {"error", "hint"}


@pytest.mark.parametrize(
    ("text", "size_"),
    [
        (None, None),
        ("64GiB", 64 * 2**30),
        ("64 gib", 64 * 2**30),
        (" 1.5GiB ", 3 * 2**29),
        ("900MiB", 900 * 2**20),
    ],
)
def test_budgets(text, size_):
    assert size(text) == size_


@pytest.mark.parametrize(
    "text",
    [
        "64",
        "64GB",
        "64 G",
        "0GiB",
        "0.0MiB",
        "-1GiB",
        "1e3GiB",
        "٣GiB",
        "9999999GiB",
        "1,5GiB",
        " ",
        "",
    ],
)
def test_budgets_that_are_none_end_2_with_what_is_expected(profiles, capsys, text):
    assert build(budget=text) == 2
    err = capsys.readouterr().err
    assert "--budget" in err
    assert "expected a size such as 64GiB or 900MiB" in err


def test_builds_before_provision_end_with_data_only_where_one_failed(
    hosts, no_wheels, profiles, monkeypatch, capsys
):
    lab = stack.load("lab")
    main = lab.environment["main"].model_copy(update={"wheels": ("lab-kernels==1.0",)})
    wanting = lab.model_copy(update={"environment": {"main": main}})
    monkeypatch.setattr(stack, "load", lambda name: wanting)
    hosts(a=[probed(memory=TIMEOUT)])
    assert commands.awaited(("a",), (), json=True, verbose=False) == 1
    assert json.loads(capsys.readouterr().out)["a"].keys() == {"error", "hint"}
    no_wheels.mkdir()
    put(no_wheels, CELL)
    hosts(a=[probed()])
    assert commands.awaited(("a",), (), json=True, verbose=False) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert f"nothing to do: the wheelhouse has {CELL}" in err


def test_a_build_does_not_begin_beside_a_manifest_that_is_none(profiles, no_wheels, capsys):
    no_wheels.mkdir()
    put(no_wheels, CELL)
    (no_wheels / f"{CELL}.json").write_text("{}")
    assert build() == 2
    assert f"{CELL}.json: not a wheel's manifest" in capsys.readouterr().err
