"""`invoke lock` on recipes' build environments: what is said, and the data."""

import json

import pytest

from provision import stack
from provision.commands import lock as locking
from provision.locking import text, uv
from wheels import commands, lock, recipe

ALL_RIGHT = {name: {"stale": []} for name in recipe.names()}


@pytest.fixture
def spoilt(tmp_path, monkeypatch):
    """Recipe lab-kernels with another lock than it asks for, and a recipe without one."""
    for name in ("lab-kernels", "flash-attn"):
        (tmp_path / f"{name}.toml").write_text((recipe.FOLDER / f"{name}.toml").read_text())
    (tmp_path / "locks").mkdir()
    text = (recipe.FOLDER / "locks/lab-kernels.txt").read_text()
    (tmp_path / "locks/lab-kernels.txt").write_text(text.replace("ninja>=1.13", "ninja>=1.12"))
    for module in (recipe, lock):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(uv.subprocess, "run", None)  # whoever asks uv fails


def check(name, capsys):
    code = commands.lock_recipe(name, check=True, json=True)
    return code, json.loads(capsys.readouterr().out)["recipes"][name]


def test_a_lock_that_is_not_its_recipe_s_ends_3_and_says_what_moved(spoilt, capsys):
    code, found = check("lab-kernels", capsys)
    (row,) = found["stale"]
    assert (code, row["field"]) == (3, "requirements")
    assert "the stack says 'ninja>=1.13'" in row["reason"]


def test_a_lock_that_is_missing_is_an_error_in_the_data(spoilt, capsys):
    code, found = check("flash-attn", capsys)
    assert code == 2
    assert found == {
        "error": "recipe flash-attn has no lock flash-attn.txt",
        "hint": "make it: invoke lock --recipe flash-attn",
    }


@pytest.mark.parametrize("damaged", [b"\xff", b"!!! not a lock"])
def test_a_damaged_lock_is_made_anew(spoilt, tmp_path, monkeypatch, damaged):
    path = tmp_path / "locks/lab-kernels.txt"
    whole = (stack.FOLDER / "locks/torch29-cu128.main.txt").read_text()
    path.write_bytes(damaged)
    monkeypatch.setattr(uv, "resolve", lambda *_: text.read(whole))
    assert commands.lock_recipe("lab-kernels", check=False, json=True) == 0
    assert "ninja>=1.13" in path.read_text()


@pytest.mark.parametrize(
    "option", [("--stack", "lab"), ("--environment", "main"), ("--upgrade", "ninja")]
)
def test_with_a_recipe_what_chooses_a_stack_s_lock_has_no_meaning(invoke, option):
    done = invoke("lock", "--recipe", "lab-kernels", *option, "--check", "--json")
    assert done.code == 2
    assert json.loads(done.out)["error"] == f"{option[0]} has no meaning with --recipe"


def test_a_recipe_that_is_built_in_the_host_s_own_environment_has_nothing_to_lock(capsys):
    for asked, data in ((True, {"stale": []}), (False, {"written": False})):
        assert commands.lock_recipe("flash-attn-torch211", check=asked, json=True) == 0
        out, err = capsys.readouterr()
        assert json.loads(out) == {"recipes": {"flash-attn-torch211": data}}
        assert "nothing to lock" in err


def test_with_the_stacks_locks_all_recipes_are_held_to_theirs(invoke):
    done = invoke("lock", "--check", "--json")
    data = json.loads(done.out)
    assert done.code == 0
    assert data.pop("recipes") == ALL_RIGHT
    assert data.keys() == {name for name in stack.names() if stack.load(name).environment}


def test_one_stack_s_locks_are_held_to_it_alone(invoke):
    done = invoke("lock", "--check", "--json", "--stack", "lab")
    assert json.loads(done.out) == {"lab": {"main": {"stale": []}}}


def test_each_recipe_that_is_wrong_is_told_and_the_first_s_code_is_the_end_s(spoilt, capsys):
    more = {"recipes": commands.hold_recipes}
    assert locking.lock("lab", "", (), check=True, json=True, more=more) == 2
    out, err = capsys.readouterr()
    found = json.loads(out)["recipes"]
    assert [entry.keys() for entry in found.values()] == [{"error", "hint"}, {"stale"}]
    assert "mend it: invoke lock --recipe lab-kernels" in err
