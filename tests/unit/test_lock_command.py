"""`invoke lock`, with the project's own uv, from an index on this computer."""

import json
import shutil

import pytest
from index import Index

from provision import stack
from provision.commands import lock as lock_command
from provision.locking import uv as locking_uv
from provision.locking.text import read

STACK = """\
system = "r590-cuda131-cuda128"
toolkits = ["13.1", "12.8"]
date = 2026-02-15
[environment.main]
python = ">=3.11,<3.14"
requirements = [{requirements}]
"""
SYSTEM = "r590-cuda131-cuda128.toml"


@pytest.fixture(scope="module")
def packages():
    """What the index offers: the parts of the real stack that tie each other down."""
    index = Index()
    for version in ("2.2.0", "2.2.5", "2.2.6", "2.3.5"):
        index.put("numpy", version)
    index.put("numpy", "2.2.7", uploaded="2026-02-16")
    index.put("llvmlite", "0.44.0")
    index.put("numba", "0.61.2", requires=["numpy>=1.24,<2.3", "llvmlite==0.44.0"])
    index.put("numba", "0.60.0")
    index.put("numba", "0.62.0", requires=["numpy>=1.24,<2.4", "llvmlite==0.45.0"])
    index.put("torch", "2.9.1")
    index.put("torch", "2.10.0")
    index.put("six", "1.17.0")
    index.put("six", "1.16.0")
    index.put("setuptools", "80.1")
    index.put("setuptools", "82.0")
    old = ['six; python_version > "3.11"', 'setuptools<81; python_version > "3.11"', "setuptools"]
    index.put("vllm", "0.15.1", requires=["torch==2.9.1", "numba==0.61.2", "numpy", *old])
    index.put("vllm", "0.17.0", requires=["torch==2.10.0", "numba==0.61.2", "numpy"])
    index.put("vllm", "0.18.0", requires=["torch==2.10.0"])
    index.put("modern", "1.0", python=">=3.12")
    index.put("modern", "0.9")
    yield index
    index.stop()


@pytest.fixture
def locks(packages, tmp_path, monkeypatch):
    """Writes a stack's requirements, and gives the lock's file."""
    (tmp_path / SYSTEM).write_text((stack.FOLDER / SYSTEM).read_text())
    monkeypatch.setattr(stack, "FOLDER", tmp_path)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", packages.url)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))

    def make(*requirements, wheels=(), name="small"):
        said = ", ".join(f"'{one}'" for one in requirements)
        built = f"wheels = {json.dumps(list(wheels))}\n"
        (tmp_path / f"{name}.toml").write_text(STACK.format(requirements=said) + built)
        return tmp_path / "locks" / f"{name}.main.txt"

    return make


def lock(*upgrade, stack="small", environment="", check=False, json=False):
    return lock_command.lock(stack, environment, upgrade, check=check, json=json)


def pins(file):
    return {pin.name: pin.spelled for pin in read(file.read_text())}


def said(capsys):
    """What stands on stdout but for the steps."""
    lines = capsys.readouterr().out.splitlines()
    return [line.removeprefix("small.main  ") for line in lines if "resolving for" not in line]


# --- a lock is made ------------------------------------------------------------------------------


def test_a_lock_holds_every_version_with_its_hashes_and_says_what_it_was_made_of(locks, capsys):
    file = locks("numba==0.61.2", "numpy<2.3")
    assert lock() == 0
    assert pins(file) == {"llvmlite": "0.44.0", "numba": "0.61.2", "numpy": "2.2.6"}
    assert all(len(pin.hashes) == 1 for pin in read(file.read_text()))
    assert file.read_text().splitlines()[1:5] == [
        "# requirements: numba==0.61.2, numpy<2.3",
        "# python: >=3.11,<3.14",
        "# platform: x86_64 manylinux_2_31",
        "# date: 2026-02-15",
    ]
    assert said(capsys) == ["small.main.txt is written: 3 pins for Python 3.11, 3.12, 3.13"]
    assert lock(check=True) == 0


def test_no_address_of_an_index_reaches_a_lock(locks, packages):
    file = locks("numpy")
    lock()
    assert "://" not in file.read_text()
    assert str(packages.server.server_port) not in file.read_text()


def test_what_came_after_the_stack_s_date_is_not_seen(locks):
    file = locks("numpy<2.3")
    lock()
    assert pins(file) == {"numpy": "2.2.6"}


def test_what_one_python_alone_needs_stands_there_for_it_alone(locks):
    file = locks("vllm==0.15.1")
    lock()
    found = pins(file)
    assert found["six"] == '1.17.0 ; python_version >= "3.12"'
    assert found["setuptools"] == "80.1"  # not 82.0 for 3.11: it keeps to what the others have
    assert found["torch"] == "2.9.1"


def test_pythons_that_can_t_agree_have_rows_of_their_own(locks):
    file = locks("modern")
    lock()
    rows = [(pin.version, pin.marker) for pin in read(file.read_text())]
    assert rows == [("0.9", 'python_version == "3.11"'), ("1.0", 'python_version >= "3.12"')]
    assert stack.Lock(text=file.read_text()).versions("3.11.2") == {"modern": "0.9"}
    assert stack.Lock(text=file.read_text()).versions("3.13.5") == {"modern": "1.0"}


def test_numpy_up_to_a_series_is_the_whole_series_and_that_is_said(locks, capsys):
    file = locks("numpy<=2.2")
    lock()
    assert pins(file) == {"numpy": "2.2.6"}
    assert said(capsys)[0] == "numpy<=2.2 is read as numpy<2.3: the whole series, as Numba says it"


def test_what_a_wheel_of_our_own_was_built_against_is_required_too(locks):
    file = locks("numpy", wheels=["flash-attn==2.8.3+cu128torch2.9.1"])
    lock()
    assert pins(file)["torch"] == "2.9.1"
    assert "flash-attn" not in pins(file)


def test_a_user_s_own_constraints_have_no_say(locks, tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("numpy==2.2.0\n")
    monkeypatch.setenv("UV_CONSTRAINT", str(tmp_path / "mine.txt"))
    monkeypatch.setenv("UV_RESOLUTION", "lowest")
    file = locks("numpy<2.3")
    lock()
    assert pins(file) == {"numpy": "2.2.6"}


# --- and made again ------------------------------------------------------------------------------


@pytest.fixture
def locked(locks, capsys):
    """A lock of older versions."""
    file = locks("numpy==2.2.5", "six==1.16.0")
    lock()
    locks("numpy<2.3", "six")
    capsys.readouterr()
    return file


def test_versions_that_the_lock_has_are_kept(locked, capsys):
    assert lock() == 0
    assert pins(locked) == {"numpy": "2.2.5", "six": "1.16.0"}
    assert said(capsys) == ["small.main.txt is written: 2 pins for Python 3.11, 3.12, 3.13"]


def test_a_lock_that_is_right_is_not_written(locked, capsys):
    lock()
    before = locked.stat().st_mtime_ns, locked.read_bytes()
    capsys.readouterr()
    assert lock() == 0
    assert said(capsys) == ["nothing to do: 2 pins for Python 3.11, 3.12, 3.13"]
    assert (locked.stat().st_mtime_ns, locked.read_bytes()) == before


def test_what_is_upgraded_moves_and_nothing_else(locked, capsys):
    assert lock("NumPy") == 0
    assert pins(locked) == {"numpy": "2.2.6", "six": "1.16.0"}
    assert said(capsys)[0] == "numpy 2.2.5 → 2.2.6"


def test_several_are_upgraded(locked):
    assert lock("numpy", "six") == 0
    assert pins(locked) == {"numpy": "2.2.6", "six": "1.17.0"}


def test_what_is_added_and_removed_is_shown(locked, locks, capsys):
    locks("numpy<2.3", "torch==2.9.1")
    lock()
    assert said(capsys)[:2] == ["six 1.16.0 is removed", "torch 2.9.1 is added"]


def test_other_files_behind_a_version_are_shown(locked, locks, packages, capsys):
    packages.put("gone", "1.0")
    locks("gone")
    lock()
    packages.put("gone", "1.0", note="other")
    capsys.readouterr()
    shutil.rmtree(locked.parent.parent / "cache")  # as if it had grown old
    lock()
    assert said(capsys)[0] == "gone: other files at the same version"


def test_a_lock_that_was_damaged_is_made_anew(locked, capsys):
    locked.write_text("<<<<<<< mine\n")
    assert lock() == 0
    assert said(capsys)[0] == "small.main.txt can't be read: it is made without regard to it"
    assert pins(locked) == {"numpy": "2.2.6", "six": "1.17.0"}


def test_as_json_what_moved_stands_alone_on_stdout(locked, capsys):
    assert lock("numpy", json=True) == 0
    moves = [{"name": "numpy", "before": "2.2.5", "after": "2.2.6"}]
    entry = {"written": True, "moves": moves, "rehashed": []}
    assert json.loads(capsys.readouterr().out) == {"small": {"main": entry}}


# --- what can't be locked ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirements", "wheels", "words"),
    [
        (
            ["numba==0.61.2", "numpy>=2.3"],
            [],
            ["numba==0.61.2 depends on numpy>=1.24,<2.3", "you require numpy>=2.3"],
        ),
        (
            ["vllm==0.17.0", "numpy<2.3"],
            ["flash-attn==2.8.3+cu128torch2.9.1"],
            [
                "vllm==0.17.0 depends on torch==2.10.0",
                "you require torch==2.9.1",
                "torch==2.9.1 is what the wheel flash-attn==2.8.3+cu128torch2.9.1 was built",
            ],
        ),
    ],
)
def test_what_can_t_be_together_is_told_with_both_its_sides(
    locks, capsys, requirements, wheels, words
):
    file = locks("numpy==2.2.5")
    lock()
    before = file.read_bytes()
    locks(*requirements, wheels=wheels)
    assert lock() == 1
    err = capsys.readouterr().err
    first = "error: stack small: environment main for Python 3.13 can't be locked: "
    assert err.startswith(first)
    assert [word for word in words if word not in err] == []
    assert "we can conclude" not in err
    assert file.read_bytes() == before


def test_a_version_from_after_the_stack_s_date_says_when_it_came(locks, capsys):
    locks("numpy==2.2.7")
    assert lock() == 1
    hint = "version 2.2.7 was published on 2026-02-16, and the stack reads the index as of"
    assert f"hint: {hint} 2026-02-15: move its `date`" in capsys.readouterr().err


def test_an_index_that_is_away_is_no_fault_of_the_requirements(locks, capsys, monkeypatch):
    file = locks("numpy")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert lock() == 1
    err = capsys.readouterr().err
    assert "could not resolve it: " in err
    assert "hint: the package index must be reachable" in err
    assert not file.exists()


def test_in_the_data_a_refusal_stands_as_an_error(locks, capsys):
    locks("numba==0.61.2", "numpy>=2.3")
    assert lock(json=True) == 1
    entry = json.loads(capsys.readouterr().out)["small"]["main"]
    assert entry.keys() == {"error", "hint"}


def test_one_lock_that_can_t_be_made_does_not_keep_the_others(locks):
    locks("numba==0.61.2", "numpy>=2.3", name="a")
    other = locks("numpy", name="b")
    assert lock(stack="") == 1
    assert pins(other) == {"numpy": "2.3.5"}


def test_whoever_is_interrupted_has_the_lock_that_was_there(locked, capsys, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    before = locked.read_bytes()
    monkeypatch.setattr(locking_uv.subprocess, "run", interrupt)
    assert lock("numpy") == 130
    assert "interrupted" in capsys.readouterr().err
    assert locked.read_bytes() == before
    assert list(locked.parent.iterdir()) == [locked]


def test_whoever_is_interrupted_while_writing_has_it_too(locked, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    before = locked.read_bytes()
    monkeypatch.setattr(locking_uv.Path, "replace", interrupt)
    assert lock("numpy") == 130
    assert locked.read_bytes() == before
    assert list(locked.parent.iterdir()) == [locked]


def test_a_lock_that_can_t_be_written_is_one_message(locked, capsys, monkeypatch):
    def refuse(*args):
        raise PermissionError(13, "Permission denied", str(locked))

    monkeypatch.setattr(locking_uv.Path, "replace", refuse)
    assert lock("numpy") == 1
    err = capsys.readouterr().err
    assert err.startswith("error: stack small: environment main: ")
    assert "Permission denied" in err


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"upgrade": ["numpi"]}, "--upgrade numpi: no lock of those asked for holds it"),
        ({"environment": "side"}, "stack small has no environment 'side'"),
        ({"stack": "tall"}, "there is no stack 'tall'"),
        ({"upgrade": ["numpy"], "check": True}, "--check resolves nothing"),
    ],
)
def test_wrong_options_end_2_before_anything_is_resolved(locked, capsys, options, words):
    upgrade = options.pop("upgrade", [])
    assert lock(*upgrade, **options, json=True) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert json.loads(out).keys() == {"error", "hint"}


# --- --check -------------------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch):
    """Whoever asks uv fails."""
    monkeypatch.setattr(locking_uv.subprocess, "run", None)


def test_a_lock_that_is_not_its_stack_s_ends_3_and_says_what_moved(locked, offline, capsys):
    assert lock(check=True) == 3
    out = capsys.readouterr().out
    assert "small.main  out of date: requirements: locked for 'numpy==2.2.5, six==1.16.0'" in out
    assert "the stack says 'numpy<2.3, six'" in out
    assert "mend it: invoke lock --stack small --environment main" in out


def test_a_lock_that_is_missing_ends_3(locks, offline, capsys):
    locks("numpy")
    assert lock(check=True) == 3
    assert "out of date: lock: there is no small.main.txt" in capsys.readouterr().out


def test_check_as_json(locks, offline, capsys):
    locks("numpy")
    assert lock(check=True, json=True) == 3
    entry = {"stale": [{"field": "lock", "reason": "there is no small.main.txt"}]}
    assert json.loads(capsys.readouterr().out) == {"small": {"main": entry}}


def test_the_shipped_lab_lock_is_what_the_index_gives(tmp_path, monkeypatch, capsys):
    """From the package index itself, and skipped where that can't be reached."""
    (tmp_path / SYSTEM).write_text((stack.FOLDER / SYSTEM).read_text())
    (tmp_path / "lab.toml").write_text((stack.FOLDER / "lab.toml").read_text())
    shipped = stack.lock_file("lab", "main").read_text()
    monkeypatch.setattr(stack, "FOLDER", tmp_path)
    if lock(stack="lab") != 0:
        err = capsys.readouterr().err
        assert "the package index must be reachable" in err
        pytest.skip(err)
    assert stack.lock_file("lab", "main").read_text() == shipped


def test_a_stack_without_environments_has_nothing_to_lock(locks, tmp_path, capsys):
    (tmp_path / "plain.toml").write_text(STACK.partition("[environment")[0])
    assert lock(stack="plain") == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: stack plain has no environment",
        "",
        "hint: there is nothing to lock",
    ]
