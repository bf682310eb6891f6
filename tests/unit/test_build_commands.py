"""The commands behind the build tasks: exit codes, what is shown, what comes and goes."""

import dataclasses
import hashlib
import json
from types import SimpleNamespace

import pytest
from samples import TIMEOUT, WANT, probed

from provision import wheelhouse
from provision.errors import TransportError
from provision.report import Report
from provision.wheelhouse import Manifest
from wheels import commands, index, lock, profile, recipe
from wheels.commands import _bytes as size

pytestmark = pytest.mark.usefixtures("an_inventory")

WANTED = "flash_attn-2.8.3+cu128torch2.9.1-cp311-cp311-linux_x86_64.whl"
"""What stack torch29-cu128 takes on Debian 12."""
OLD = WANTED.replace("2.9.1", "2.8.0")
CELL = "lab_kernels-1.0+cu131-cp311-cp311-linux_x86_64.whl"
"""Recipe lab-kernels on the finished host."""
BESIDE = (".json", ".provenance", ".html")


def put(folder, file, requires=(), archs=("9.0",)):
    """A wheel into a wheelhouse, with what stands beside it."""
    content = file.encode()
    manifest = Manifest(
        file=file,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        requires=requires,
        archs=archs,
        glibc="2.34",
    )
    (folder / file).write_bytes(content)
    for suffix in BESIDE:
        (folder / f"{file}{suffix}").write_text(manifest.model_dump_json())
    return manifest


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A wheelhouse without a wheel."""
    folder = tmp_path / "dist"
    monkeypatch.setattr(wheelhouse, "FOLDER", folder)
    for function in (wheelhouse.load, wheelhouse.content):
        monkeypatch.setattr(function, "__defaults__", (folder,))
    return folder


@pytest.fixture
def house(empty):
    """A wheelhouse with a wheel that a stack takes, and one that none takes any more."""
    empty.mkdir()
    wanted = put(empty, WANTED, requires=("torch==2.9.1",))
    old = put(empty, OLD, requires=("torch==2.8.0",))
    index.write(empty)
    return SimpleNamespace(folder=empty, wanted=wanted, old=old)


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
def test_an_empty_wheelhouse_says_so(empty, capsys, command, data):
    assert command() == 0
    assert capsys.readouterr().out == f"wheelhouse  {empty} holds no wheel yet\n"
    assert command(json=True) == 0
    assert json.loads(capsys.readouterr().out) == data
    assert not empty.exists()


def test_a_wheel_has_one_manifest(house, capsys):
    manifest = (house.folder / f"{WANTED}.json").read_text()
    (house.folder / f"{OLD}.json").write_text(manifest)
    assert verify() == 3
    said = capsys.readouterr()
    assert f"{OLD}.json: not a wheel's manifest: it is that of {WANTED}" in said.err
    assert said.out.count("as its manifest says") == 1


@pytest.mark.parametrize("command", [listed, verify, prune])
def test_a_wheelhouse_that_is_not_there_is_none_without_a_wheel(
    empty, monkeypatch, capsys, command
):
    monkeypatch.setenv(wheelhouse.VARIABLE, str(empty))
    assert command(json=True) == 2
    said = capsys.readouterr()
    assert f"there is no folder {empty}" in said.err
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


def test_a_build_does_not_begin_beside_it(house, capsys):
    (house.folder / f"{OLD}.json").write_text("{}")
    assert build() == 2
    assert f"{OLD}.json: not a wheel's manifest" in capsys.readouterr().err


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


def test_verify_as_json_has_each_wheel_and_what_is_wrong_with_it(house, capsys):
    (house.folder / OLD).unlink()
    assert verify(json=True) == 3
    data = json.loads(capsys.readouterr().out)
    assert data[WANTED] == {"sha256": house.wanted.sha256}
    assert data[OLD].keys() == {"sha256", "error", "hint"}
    assert f"{OLD}: is gone or damaged" in data[OLD]["error"]


def unreadable(path):
    """Something in its place whose bytes nobody reads."""
    path.unlink()
    path.mkdir()


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
    (house.folder / f"{OLD}.mine").mkdir()
    assert prune() == 1
    assert f"error: {house.folder / OLD}.mine: can't be removed: " in capsys.readouterr().err


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


# --- build --plan ------------------------------------------------------------------------------


@pytest.fixture
def profiles(empty, tmp_path, monkeypatch):
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
def test_what_the_wheelhouse_has_is_not_built_again(hosts, empty, profiles, capsys, plan):
    empty.mkdir()
    put(empty, CELL)
    hosts(a=[probed()])
    assert build(plan=plan) == 0
    assert f"a  nothing to do: the wheelhouse has {CELL}" in capsys.readouterr().out


def test_the_first_wheel_is_planned_into_a_folder_that_is_yet_to_be_made(
    hosts, empty, profiles, monkeypatch, capsys
):
    monkeypatch.setenv(wheelhouse.VARIABLE, str(empty))
    hosts(a=[probed()])
    assert build() == 0
    assert not empty.exists()


def test_unless_it_is_asked_for(hosts, empty, profiles, capsys):
    empty.mkdir()
    put(empty, CELL)
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


def test_a_fact_that_is_not_known_is_one_message(hosts, profiles, capsys):
    hosts(a=[probed(memory=TIMEOUT)])
    assert build() == 1
    err = capsys.readouterr().err
    assert err == "error: a: the build can't be planned: memory: no answer within 30 s\n"


def test_a_plan_changes_nothing_and_is_shown_while_a_run_goes_on_there(hosts, profiles, capsys):
    hosts(a=[probed(run="theirs")])
    assert build() == 0
    assert "a  round 1 of 1, now" in capsys.readouterr().out


def test_a_wheel_that_is_damaged_does_not_count_as_there(hosts, empty, profiles, capsys):
    empty.mkdir()
    put(empty, CELL)
    (empty / CELL).write_bytes(b"another")
    hosts(a=[probed()])
    assert build() == 0
    out = capsys.readouterr().out
    assert "is gone or damaged" in out
    assert "wheel:lab-kernels: not built" in out


def test_one_that_can_t_be_read_is_not_built_anew(hosts, empty, profiles, capsys):
    empty.mkdir()
    put(empty, CELL)
    unreadable(empty / CELL)
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
