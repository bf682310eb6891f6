"""Which of the built wheels fits a lock, and what is said when none does."""

import hashlib
import json
from pathlib import Path

import pytest

from provision import wheelhouse
from provision.errors import ProvisionError, UsageError
from provision.wheelhouse import Manifest, Suits, Unfit, fitting

CONTENT = b"a wheel"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = "flash_attn-2.8.3+cu128torch2.9.1-cp311-cp311-linux_x86_64.whl"
LOCK = {"torch": "2.9.1", "einops": "0.8.1"}
MOVED = "it was built for torch==2.9.1, and the lock has torch 2.10.0"


def wheel(file=FILE, requires=("torch==2.9.1", "einops"), sha256=SHA256, glibc="2.34"):
    return Manifest(
        file=file, sha256=sha256, size=7, requires=requires, archs=("12.0",), glibc=glibc
    )


def found(*wheels, wanted="flash-attn==2.8.3", **suits):
    return fitting(wheels, wanted, Suits(**{"versions": LOCK, "python": "3.11.2"} | suits))


def test_a_wheel_is_named_by_its_file():
    assert (wheel().name, wheel().version) == ("flash-attn", "2.8.3+cu128torch2.9.1")


def test_a_wheel_that_fits():
    assert found(wheel()) == wheel()


def test_of_several_the_newest():
    post = wheel(FILE.replace("2.8.3+", "2.8.3.post1+"))
    assert found(wheel(), post, wanted="flash-attn>=2.8.3") == post


@pytest.mark.parametrize(
    ("wheels", "asked", "reason"),
    [
        ((), {}, "nobody has built this wheel yet"),
        ((wheel(),), {"wanted": "flash-attn==2.8.4"}, "nobody has built this wheel yet"),
        ((wheel(),), {"wanted": "other==1"}, "nobody has built this wheel yet"),
        (
            (wheel(),),
            {"versions": LOCK | {"torch": "2.10.0"}},
            f"the wheelhouse has {FILE}, but {MOVED}",
        ),
        (
            (wheel(),),
            {"versions": {"torch": "2.9.1"}},
            f"the wheelhouse has {FILE}, but it needs einops, which the lock has not",
        ),
        (
            (wheel(),),
            {"python": "3.12.3"},
            f"the wheelhouse has {FILE}, but it is not for Python 3.12",
        ),
        (
            (wheel(),),
            {"glibc": "2.31"},
            f"the wheelhouse has {FILE}, but it needs glibc 2.34, there is 2.31",
        ),
        (
            (wheel(),),
            {"archs": ("9.0", "12.0")},
            f"the wheelhouse has {FILE}, but it has no kernels for 9.0",
        ),
    ],
)
def test_why_none_fits(wheels, asked, reason):
    assert found(*wheels, **asked) == Unfit(reason)


def test_what_a_marker_excludes_is_not_needed():
    wanted = wheel(requires=("torch==2.9.1", "triton-windows; sys_platform == 'win32'"))
    assert found(wanted) == wanted


@pytest.mark.parametrize(("python", "fits"), [("3.10.12", False), ("3.11.2", True)])
def test_markers_are_those_of_the_host_s_python(python, fits):
    file = FILE.replace("cp311-cp311", "cp310-abi3")
    wanted = wheel(file, requires=("torch==2.9.1", "tomli; python_version < '3.11'"))
    assert (found(wanted, python=python) == wanted) is fits


def test_an_extra_s_requirement_is_not_needed():
    wanted = wheel(requires=("torch==2.9.1", "pytest; extra == 'test'"))
    assert found(wanted) == wanted


@pytest.fixture
def folder(tmp_path):
    (tmp_path / FILE).write_bytes(CONTENT)
    (tmp_path / f"{FILE}.json").write_text(json.dumps(wheel().model_dump()))
    return tmp_path


def test_the_wheelhouse_is_a_folder_of_wheels_and_manifests(folder):
    assert wheelhouse.load(folder) == (wheel(),)
    assert wheelhouse.load(folder / "none") == ()


def test_a_wheel_s_content_is_held_to_its_manifest(folder):
    assert wheelhouse.content((wheel(),), SHA256, folder) == CONTENT
    (folder / FILE).write_bytes(b"another")
    with pytest.raises(ProvisionError, match="gone or damaged") as caught:
        wheelhouse.content((wheel(),), SHA256, folder)
    assert "builds it anew" in caught.value.hint


def test_two_wheels_may_be_the_same_bytes(folder):
    again = wheel(FILE.replace("cp311-linux", "abi3-linux"))
    assert wheelhouse.content((wheel(), again), SHA256, folder) == CONTENT


@pytest.fixture
def closed(monkeypatch):
    """Closes files to their reader, whoever runs this."""

    def close(*paths):
        def refuse(read):
            def reading(self, *args, **named):
                if self in paths:
                    raise PermissionError(13, "Permission denied", str(self))
                return read(self, *args, **named)

            return reading

        for name in ("read_bytes", "read_text"):
            monkeypatch.setattr(Path, name, refuse(getattr(Path, name)))

    return close


def test_a_wheel_that_may_not_be_read_is_neither_gone_nor_damaged(folder, closed):
    closed(folder / FILE)
    with pytest.raises(UsageError) as caught:
        wheelhouse.content((wheel(),), SHA256, folder)
    assert caught.value.what == f"{folder / FILE}: can't be read: Permission denied"
    assert caught.value.hint.endswith(f"ls -ld {folder / FILE}")


def test_nor_is_a_manifest_that_may_not_be_read_to_be_taken_away(folder, closed):
    path = folder / f"{FILE}.json"
    closed(path)
    _, mistakes = wheelhouse.look(folder)
    assert mistakes.keys() == {FILE}
    assert mistakes[FILE].what == f"{path}: can't be read: Permission denied"
    assert mistakes[FILE].hint.endswith(f"ls -ld {path}")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"file": "a.whl"}', '{"file": 3}'])
def test_a_manifest_that_is_none(folder, text):
    (folder / f"{FILE}.json").write_text(text)
    with pytest.raises(UsageError, match=r"\.whl\.json: not a wheel's manifest"):
        wheelhouse.load(folder)


@pytest.mark.parametrize("glibc", ["", "2.34", "2.2.5"])
def test_a_wheel_of_few_demands_needs_an_old_glibc(folder, glibc):
    one = wheel(glibc=glibc)
    (folder / f"{FILE}.json").write_text(one.model_dump_json())
    assert wheelhouse.load(folder) == (one,)


@pytest.mark.parametrize(
    "field",
    [{"requires": ["torch =="]}, {"glibc": "abc"}, {"size": -5}, {"archs": ["banana"]}],
    ids=str,
)
def test_a_manifest_with_a_field_that_is_none(folder, field):
    wrong = {**wheel().model_dump(), **field}
    (folder / f"{FILE}.json").write_text(json.dumps(wrong))
    with pytest.raises(UsageError, match="not a wheel's manifest"):
        wheelhouse.load(folder)


# --- its folder --------------------------------------------------------------------------------


@pytest.fixture
def named(tmp_path, monkeypatch):
    """The variable names a folder; which one is its own matter."""
    monkeypatch.setenv(wheelhouse.VARIABLE, "x")
    return tmp_path / "share" / "wheels"


@pytest.mark.parametrize("name", ["~/wheels", "wheels"])
def test_the_folder_is_read_as_a_shell_would_and_said_in_full(tmp_path, monkeypatch, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert wheelhouse.place(name) == tmp_path / "wheels"


def test_without_the_variable_it_is_the_project_s_own():
    assert wheelhouse.place(None) == wheelhouse.place("")
    assert wheelhouse.place("").parts[-2:] == ("wheels", "dist")


def test_a_folder_that_was_named_has_to_be_there(named):
    named.parent.mkdir()
    with pytest.raises(UsageError) as caught:
        wheelhouse.load(named)
    assert caught.value.what == f"{wheelhouse.VARIABLE}: there is no folder {named}"


def test_unless_the_first_wheel_is_to_come_into_it(named):
    named.parent.mkdir()
    assert wheelhouse.load(named, first=True) == ()


def test_nor_is_the_folder_above_made_then(named):
    with pytest.raises(UsageError, match=f"no folder {named}, nor {named.parent} to make it in"):
        wheelhouse.load(named, first=True)


@pytest.mark.parametrize("first", [True, False])
def test_what_is_no_folder_is_no_wheelhouse(named, monkeypatch, first):
    named.parent.write_text("")
    says = f"{named.parent}: can't be read as a folder: Not a directory"
    with pytest.raises(UsageError) as caught:
        wheelhouse.load(named.parent, first=first)
    assert caught.value.what == f"{wheelhouse.VARIABLE}: {says}"
    monkeypatch.delenv(wheelhouse.VARIABLE)
    with pytest.raises(UsageError) as caught:
        wheelhouse.load(named.parent, first=first)
    assert caught.value.what == says


def test_nor_is_a_folder_that_may_not_be_read(folder, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UsageError, match="can't be read as a folder: Permission denied") as caught:
        wheelhouse.load(folder)
    assert caught.value.hint.endswith(f"ls -ld {folder}")
