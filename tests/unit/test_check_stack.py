"""`invoke check-stack`: stacks by themselves, and on hosts."""

import dataclasses
import json

import pytest
from samples import probed

from provision import inventory, stack
from provision.commands import check_stack as check_stack_command
from provision.compatibility.row import Row
from provision.target import Target
from provision.transport.recorded import Recorded
from provision.want import Want


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """Gives each host of the inventory what it will answer."""
    file = tmp_path / "inventory.yaml"
    file.write_text("default: a\nhosts:\n  a: {stack: lab}\n  b: {stack: lab}\n")
    monkeypatch.setenv(inventory.VARIABLE, str(file))
    asked = []

    def set_up(**answers):
        def make(one, *, compared):
            assert not compared
            asked.append((one.name, one.stack))
            transport = Recorded(one.name, [("", answers[one.name])])
            return Target(
                host=one,
                want=Want(stack=stack.load(one.stack), uv=stack.load_uv()),
                transport=transport,
            )

        monkeypatch.setattr(check_stack_command, "target", make)
        return asked

    return set_up


def check(*names, stack="", json=False):
    return check_stack_command.check_stack(stack, names, json=json)


def test_every_stack_is_checked_by_itself(capsys):
    assert check() == 0
    out = capsys.readouterr().out
    assert [name for name in stack.names() if f"{name}  " not in out] == []


def test_each_rule_stands_there_with_both_sides(capsys):
    assert check(stack="lab") == 0
    lines = capsys.readouterr().out.splitlines()
    sides = "numba 0.61.2 takes NumPy below 2.3; environment main has NumPy 2.2.6"
    assert f"  ✓ numba.numpy: {sides}" in lines
    assert lines[-1].startswith("lab  ")
    assert " unknown" in lines[-1]


def test_a_stack_that_can_t_work_ends_3(capsys, monkeypatch):
    real = stack.load("torch29-cu128")
    changed = real.model_copy(update={"toolkits": ("13.1",)})
    monkeypatch.setattr(stack, "load", lambda name: changed)
    assert check(stack="torch29-cu128") == 3
    out = capsys.readouterr().out
    assert "✗ torch.toolkit: flash-attn==2.8.3 is built for torch 2.9.1" in out
    assert "hint: add a toolkit 12.8 to the stack's toolkits  [stack: toolkits]" in out
    assert "1 violated" in out


@pytest.mark.parametrize(
    ("interpreter", "row"),
    [
        ("system", "the host's /usr/bin/python3 is 3.11.2 (the system's, as the stack says: "),
        ("managed", "uv is to fetch Python 3.13 (uv's, as the stack says: "),
    ],
)
def test_whose_python_it_is_is_told_with_the_reason(hosts, capsys, monkeypatch, interpreter, row):
    real = stack.load("lab")
    main = real.environment["main"].model_copy(update={"interpreter": interpreter})
    changed = real.model_copy(update={"environment": {"main": main}})
    monkeypatch.setattr(stack, "load", lambda name: changed)
    hosts(a=probed())
    assert check("a") == 0
    assert f"locked for Python >=3.11,<3.14; {row}" in capsys.readouterr().out


def test_with_a_host_it_is_its_own_stack_and_one_question(hosts, capsys):
    asked = hosts(a=probed())
    assert check("a", json=True) == 0
    assert asked == [("a", "lab")]
    data = json.loads(capsys.readouterr().out)["a"]
    assert {row["verdict"] for row in data} == {"ok"}


def test_another_stack_is_tried_on_a_host(hosts, capsys):
    asked = hosts(a=probed({"os": {"libc": "glibc 2.41"}}))
    assert check("a", stack="torch29-cu128") == 3
    assert asked == [("a", "torch29-cu128")]
    assert "✗ toolkit.glibc: nvcc 12.8 reads" in capsys.readouterr().out


def test_as_json_rows_stand_alone_on_stdout(capsys):
    assert check(stack="lab", json=True) == 0
    data = json.loads(capsys.readouterr().out)
    fields = {field.name for field in dataclasses.fields(Row)}
    assert data.keys() == {"lab"}
    assert all(row.keys() == fields for row in data["lab"])


@pytest.mark.parametrize("names", [(), ("a",)])
def test_a_stack_that_there_is_not_ends_2_before_any_host_is_asked(hosts, capsys, names):
    asked = hosts(a=probed())
    assert check(*names, stack="tall", json=True) == 2
    out, err = capsys.readouterr()
    assert "there is no stack 'tall'" in err
    assert json.loads(out).keys() == {"error", "hint"}
    assert asked == []
