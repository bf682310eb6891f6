"""Which hosts a damaged wheelhouse is a matter of: those whose stack takes what was built."""

import pytest

from provision import inventory, wheelhouse
from provision.errors import UsageError
from provision.target import target


def host(stack):
    text = f"default: h\nhosts:\n  h: {{connection: local, stack: {stack}}}\n"
    (one,) = inventory.parse(text, "inventory.yaml").select()
    return one


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """A wheelhouse whose one manifest was cut short."""
    (tmp_path / "x-1-py3-none-any.whl.json").write_text('{"a":')
    monkeypatch.setattr(wheelhouse.load, "__defaults__", (tmp_path,))


def test_a_host_whose_stack_takes_no_built_wheel_is_made_ready_all_the_same(damaged):
    assert target(host("lab"), compared=False).want.wheelhouse == ()


def test_a_host_whose_stack_takes_one_is_not(damaged):
    with pytest.raises(UsageError, match=r"x-1-py3-none-any\.whl\.json: not a wheel's manifest"):
        target(host("torch29-cu128"), compared=False)


def test_where_the_caller_knows_the_wheels_it_is_not_looked_at(damaged):
    assert target(host("torch29-cu128"), compared=False, wheels=()).want.wheelhouse == ()
