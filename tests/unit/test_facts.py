"""Facts: what a collector's answer becomes, and what promises make of them."""

import copy

import pytest

from provision import facts, promises
from provision.errors import ProvisionError

FIELDS = facts.Facts.__dataclass_fields__


def ok(value):
    return {"status": "ok", "value": value}


def raw(**answers):
    return {"schema": 1, "facts": answers}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ok({"groups": 3}), facts.Iommu(groups=3)),
        ({"status": "absent", "reason": "no iommu"}, facts.Absent()),
        ({"status": "absent"}, facts.Absent()),
        ({"status": "error", "reason": "KeyError: 'x'"}, facts.Unknown("KeyError: 'x'")),
        ({"status": "timeout", "reason": "no answer"}, facts.Unknown("no answer")),
        ({"status": "error"}, facts.Unknown("no reason given")),
        ({"status": "odd", "reason": "who knows"}, facts.Unknown("who knows")),
        ({}, facts.Unknown("no reason given")),
    ],
)
def test_an_answer_is_a_value_or_absent_or_unknown_with_its_reason(answer, expected):
    assert facts.parse(raw(iommu=answer)).iommu == expected


def test_a_collector_that_did_not_answer_is_unknown():
    found = facts.parse(raw())
    assert {name: getattr(found, name) for name in FIELDS} == dict.fromkeys(
        FIELDS, facts.Unknown("the probe did not say")
    )


WRONG = {
    "a word for a number": ("iommu", {"groups": "many"}, "iommu.groups: "),
    "a missing field": ("secure_boot", {}, "secure_boot.enabled: Field required"),
    "deep inside a mapping": (
        "dpkg",
        {"interrupted": False, "packages": {"gcc": {"version": "1"}}},
        "dpkg.packages.gcc.status: Field required",
    ),
    "deep inside a list": (
        "pci",
        [{"slot": "0", "device": "10de:1", "kind": "0302", "numa": "x", "driver": None}],
        "pci.0.numa: ",
    ),
    "a list for a mapping": ("disks", [], "disks: "),
    "nothing": ("disks", None, "disks: "),
    "a word out of two": (
        "driver",
        {"loaded": "1", "flavour": "closed", "library": "1"},
        "driver.flavour: ",
    ),
}


@pytest.mark.parametrize("case", WRONG, ids=WRONG)
def test_a_wrong_shape_is_named_by_its_dotted_path(case):
    name, value, message = WRONG[case]
    with pytest.raises(ProvisionError) as caught:
        facts.parse(raw(**{name: ok(value)}))
    assert caught.value.what.startswith(f"facts: {message}")


@pytest.mark.parametrize("schema", [0, 2, "1", None])
def test_facts_of_another_schema_are_refused(schema):
    with pytest.raises(ProvisionError, match="expected 1") as caught:
        facts.parse({"schema": schema, "facts": {}})
    assert "invoke facts" in caught.value.hint


@pytest.mark.parametrize("text", [{"schema": 1}, {"schema": 1, "facts": []}])
def test_facts_without_collectors_are_refused(text):
    with pytest.raises(ProvisionError, match="expected a mapping of collectors"):
        facts.parse(text)


def test_why_a_thing_is_absent_is_kept():
    found = facts.parse(raw(iommu={"status": "absent", "reason": "no iommu"}))
    assert found.iommu.reason == "no iommu"


def value(merged, name):
    return merged["facts"][name]["value"]


@pytest.mark.parametrize(
    ("before", "promise", "after"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": {"x": 1}}, {"a": None}, {"a": None}),
        ({"a": None}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"x": 1}}, {"a": {}}, {"a": {"x": 1}}),
        ({}, {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1}}}),
    ],
)
def test_a_promise_changes_what_it_names_and_leaves_the_rest(before, promise, after):
    assert value(promises.merge(raw(one=ok(before)), {"one": promise}), "one") == after


def test_promises_come_true_in_their_order():
    merged = promises.merge(raw(one=ok({"a": 1})), {"one": {"a": 2}}, {"one": {"a": 3, "b": 1}})
    assert value(merged, "one") == {"a": 3, "b": 1}


def test_merging_leaves_the_probe_s_own_answer_alone():
    before = raw(one=ok({"a": {"x": 1}}))
    kept = copy.deepcopy(before)
    value(promises.merge(before, {"one": {"a": {"x": 2}}}), "one")["a"]["y"] = 3
    assert before == kept


@pytest.mark.parametrize("status", ["error", "timeout"])
def test_a_promise_about_what_is_unknown_leaves_it_unknown(status):
    answer = {"status": status, "reason": "no answer"}
    merged = promises.merge(raw(nvml=answer), {"nvml": {"driver": "1"}})
    assert facts.parse(merged).nvml == facts.Unknown("no answer")


def test_a_promise_about_what_is_absent_makes_it():
    merged = promises.merge(raw(iommu={"status": "absent"}), {"iommu": {"groups": 1}})
    assert facts.parse(merged).iommu == facts.Iommu(groups=1)


@pytest.mark.parametrize("status", ["error", "timeout"])
def test_what_no_promise_names_stays_unknown(status):
    answer = {"status": status, "reason": "no answer"}
    merged = promises.merge(raw(nvml=answer, iommu=ok({"groups": 1})), {"iommu": {"groups": 2}})
    assert facts.parse(merged).nvml == facts.Unknown("no answer")
    assert facts.parse(merged).iommu == facts.Iommu(groups=2)


@pytest.mark.parametrize(
    ("value", "promise", "lines"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"a": 1}, []),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2}}, []),
        ({"a": 1}, {"a": 2}, ["one.a: promised 2, found 1"]),
        ({}, {"a": 2}, ["one.a: promised 2, found None"]),
        ({}, {"a": None}, []),
        ({"a": 1}, {"a": None}, ["one.a: promised None, found 1"]),
        ({"a": 1}, {"a": {"x": 1}}, ["one.a: promised {'x': 1}, found 1"]),
        (
            {"a": {"x": 1, "y": 1}},
            {"a": {"x": 2, "y": 2}},
            ["one.a.x: promised 2, found 1", "one.a.y: promised 2, found 1"],
        ),
    ],
)
def test_a_promise_holds_when_the_facts_bear_it_out(value, promise, lines):
    assert promises.holds(raw(one=ok(value)), {"one": promise}) == lines


def test_a_promise_about_an_unknown_fact_does_not_hold():
    answer = {"status": "timeout", "reason": "no answer"}
    assert promises.holds(raw(one=answer), {"one": {"a": 1}}) == [
        "one: promised {'a': 1}, found None"
    ]


def test_whatever_was_merged_holds():
    promise = {"one": {"a": {"x": 1}, "b": None, "c": [1]}, "two": {"d": True}}
    assert (
        promises.holds(
            promises.merge(raw(one=ok({"b": 1, "a": {"z": 0}}), two=ok({})), promise), promise
        )
        == []
    )
