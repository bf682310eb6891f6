"""Commands where nothing can be written: one message and a code, each."""

import os
from pathlib import Path

import pytest
from samples import probed

from provision.commands import hosts as commands
from provision.commands import lab as lab_commands

FULL = Path("/dev/full")
"""Says of every write that the disk has no room, once it is flushed."""


@pytest.mark.parametrize(
    "command",
    [
        lambda: lab_commands.status(json=True),
        lambda: lab_commands.down([], [], discard=False),
        lambda: lab_commands.ssh("lab", ""),
    ],
    ids=["status", "down", "ssh"],
)
def test_a_lab_folder_that_can_t_be_made(tmp_path, monkeypatch, capsys, command):
    (tmp_path / "file").touch()
    monkeypatch.setenv("FIRSTLIGHT_LAB_DIR", str(tmp_path / "file" / "lab"))
    assert command() == 1
    said = capsys.readouterr()
    assert "the lab's folder can't be made: Not a directory" in said.err
    assert "FIRSTLIGHT_LAB_DIR" in said.err
    assert said.out == ""


@pytest.mark.usefixtures("an_inventory")
def test_data_for_which_there_is_no_room(hosts, monkeypatch, capsys):
    hosts(a=[probed()])
    with FULL.open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        with pytest.raises(SystemExit) as ended:
            commands.verify(["a"], (), json=True, verbose=False)
    assert ended.value.code == 1
    assert "the output can't be written: No space left on device" in capsys.readouterr().err


@pytest.mark.usefixtures("an_inventory")
def test_lines_for_which_there_is_no_room(hosts, monkeypatch, capsys):
    hosts(a=[probed()], b=[probed()])
    with FULL.open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert commands.verify(["a", "b"], (), json=False, verbose=True) == 1
    assert "the output can't be written: No space left on device" in capsys.readouterr().err


@pytest.mark.usefixtures("an_inventory")
@pytest.mark.parametrize("json", [False, True], ids=["lines", "json"])
def test_a_reader_that_has_enough_changes_no_code(hosts, monkeypatch, capsys, json):
    hosts(a=[probed()])
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr("sys.stdout", pipe)
        assert commands.verify(["a"], (), json=json, verbose=True) == 0
    assert "can't be written" not in capsys.readouterr().err


@pytest.mark.usefixtures("an_inventory")
def test_a_plan_for_which_there_is_no_room_ends_2_as_a_wrong_option(hosts, capsys):
    hosts(a=[probed()])
    assert commands.plan(["a"], (), json=False, verbose=False, output=FULL, accept_new=False) == 2
    assert "/dev/full: can't be written: No space left on device" in capsys.readouterr().err
