"""Plans as data: what their fingerprints follow, and what is saved of them."""

import json
from dataclasses import replace

import pytest

from provision.plan import (
    Apt,
    Change,
    Keyring,
    Plan,
    Reboot,
    Round,
    Run,
    Seal,
    Stage,
    Switch,
    Unpack,
    Write,
    change_data,
)

ACTIONS = (
    Write(path="/etc/a", content="é\n"),
    Run(argv=("true", "-x")),
    Keyring(url="http://deb.example/k.deb", sha256="0" * 64, fingerprint="A" * 40),
    Apt(argv=("apt-get", "install", "a=1"), install={"a": [None, "1"]}, remove={"b": "2"}),
    Unpack(wheel="0" * 64, member="uv", path="/opt/uv"),
    Seal(release="/opt/r", lock="1" * 64, python="3.11.2", versions={"a": "1"}),
    Switch(link="/opt/current", target="r"),
    Reboot(),
)


def change(**fields):
    base = {
        "resource": "one",
        "subject": "x",
        "stage": Stage.SOURCES,
        "before": "old",
        "after": "new",
        "why": "it is wanted",
        "actions": ACTIONS,
    }
    return Change(**{**base, **fields})


def planned(*changes, awaited=()):
    return Plan(host="h", stack="s", rounds=(Round(changes=changes),), awaited=awaited)


def fingerprint(**fields):
    return planned(change(**fields)).fingerprint


def with_action(kind, **fields):
    return tuple(replace(a, **fields) if isinstance(a, kind) else a for a in ACTIONS)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Write, {"path": "/etc/b"}),
        (Write, {"content": "e\n"}),
        (Write, {"mode": 0o600}),
        (Run, {"argv": ("true", "-y")}),
        (Run, {"argv": ("true -x",)}),
        (Run, {"timeout": 1.0}),
        (Run, {"env": {"A": "1"}}),
        (Keyring, {"url": "http://deb.example/l.deb"}),
        (Keyring, {"sha256": None}),
        (Keyring, {"fingerprint": "B" * 40}),
        (Apt, {"argv": ("apt-get", "install", "a=2")}),
        (Apt, {"install": None}),
        (Apt, {"install": {"a": ["0", "1"]}}),
        (Apt, {"install": {"a": [None, "1"], "c": [None, "1"]}}),
        (Apt, {"remove": {}}),
        (Unpack, {"wheel": "1" * 64}),
        (Unpack, {"member": "uvx"}),
        (Unpack, {"path": "/opt/uvx"}),
        (Seal, {"release": "/opt/q"}),
        (Seal, {"lock": "2" * 64}),
        (Seal, {"python": "3.12"}),
        (Switch, {"link": "/opt/now"}),
        (Switch, {"target": "q"}),
    ],
)
def test_any_other_content_of_an_action_is_another_fingerprint(kind, fields):
    assert fingerprint(actions=with_action(kind, **fields)) != fingerprint()


@pytest.mark.parametrize(
    "fields",
    [
        {"resource": "two"},
        {"subject": "y"},
        {"blocked": "it can't be told"},
        {"actions": ()},
        {"actions": ACTIONS[:-1]},
        {"actions": ACTIONS[::-1]},
    ],
)
def test_what_is_done_and_its_order_are_in_the_fingerprint(fields):
    assert fingerprint(**fields) != fingerprint()


@pytest.mark.parametrize(
    "fields",
    [
        {"before": "older"},
        {"after": "newer"},
        {"why": "because"},
        {"hint": "try again"},
        {"makes": {"iommu": {"groups": 1}}},
    ],
)
def test_wording_and_promises_are_not_in_the_fingerprint(fields):
    assert fingerprint(**fields) == fingerprint()


def test_the_fingerprint_is_of_the_first_round_alone():
    later = Round(changes=(change(subject="later"),))
    one = planned(change())
    assert replace(one, rounds=(*one.rounds, later)).fingerprint == one.fingerprint
    assert replace(one, rounds=(later,)).fingerprint != one.fingerprint


def test_the_order_of_changes_matters():
    first, second = change(subject="1"), change(subject="2")
    assert planned(first, second).fingerprint != planned(second, first).fingerprint


def test_a_plan_is_the_same_after_its_way_through_json():
    data = planned(change(), awaited=(change(awaited="nobody built it"),)).to_data()
    assert json.loads(json.dumps(data)) == data


def test_equal_plans_are_equal_data_whatever_the_order_of_their_mappings():
    def env(*names):
        return change(actions=(Run(argv=("x",), env=dict.fromkeys(names, "1")),))

    one, other = planned(env("a", "b")), planned(env("b", "a"))
    assert json.dumps(one.to_data()) == json.dumps(other.to_data())
    assert one.fingerprint == other.fingerprint


def test_what_is_saved_of_a_plan():
    data = planned(change()).to_data()
    assert {name: data[name] for name in ("schema", "host", "stack", "empty")} == {
        "schema": 1,
        "host": "h",
        "stack": "s",
        "empty": False,
    }
    (only,) = data["rounds"][0]
    assert (only["id"], only["stage"], only["reboots"]) == ("one:x", "sources", True)
    assert [action["do"] for action in only["actions"]] == [
        "write",
        "run",
        "keyring",
        "apt",
        "unpack",
        "seal",
        "switch",
        "reboot",
    ]


@pytest.mark.parametrize(
    ("fields", "there"),
    [
        ({}, set()),
        ({"hint": "do this"}, {"hint"}),
        ({"blocked": "no", "hint": "do this"}, {"blocked", "hint"}),
        ({"awaited": "not built"}, {"awaited"}),
    ],
)
def test_reasons_that_are_empty_are_left_out(fields, there):
    data = change_data(change(**fields))
    assert data.keys() & {"blocked", "awaited", "hint"} == there
    assert {name: data[name] for name in there} == fields


def test_a_plan_without_rounds_is_empty_even_when_something_is_awaited():
    plan = Plan(host="h", stack="s", rounds=(), awaited=(change(awaited="not built"),))
    assert plan.empty
    assert plan.now.changes == ()
    assert not plan.now.actionable


def test_one_blocked_change_holds_up_its_round():
    one = planned(change(), change(subject="y", blocked="no")).now
    assert not one.actionable
    assert [c.subject for c in one.blocked] == ["y"]


def test_transactions_that_apt_was_not_asked_about():
    asked, unasked = Apt(argv=("a",), install={}), Apt(argv=("b",))
    one = planned(change(actions=(asked, Run(argv=("c",)), unasked))).now
    assert one.unasked == (unasked,)


@pytest.mark.parametrize(
    ("actions", "expected"), [(ACTIONS, True), (ACTIONS[:-1], False), ((), False)]
)
def test_a_round_reboots_when_one_of_its_changes_does(actions, expected):
    assert planned(change(actions=actions)).now.reboots is expected
