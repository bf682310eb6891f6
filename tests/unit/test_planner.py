"""Planning by rounds, with resources of one line each instead of the real ones."""

from types import SimpleNamespace

import pytest

from provision import facts, planner, resources, stack
from provision.errors import ProvisionError
from provision.plan import Change, Run, Stage
from provision.resources.known import NotKnown, known
from provision.want import Want

WANT = Want(stack=stack.load("lab"), uv=stack.load_uv())
BARE = {
    "schema": 1,
    "facts": {"disks": {"status": "ok", "value": {}}, "uv": {"status": "ok", "value": {}}},
}
"""`uv` (any name → a word or None) stands for all that is on a host."""


def change(name, stage, **fields):
    base = {"before": "", "after": "", "why": "", "actions": (Run(argv=(name,)),)}
    return Change(resource=name, subject="x", stage=stage, **{**base, **fields})


def noun(name, stage, *, needs=(), promise=True, **fields):
    """A resource that wants `name` on the host; blocked without what it needs."""

    def plan(_want, seen):
        there = known(seen.uv, "uv")
        if there.get(name):
            return []
        for need in needs:
            if not there.get(need):
                raise NotKnown(f"{need} is missing", subject="x", hint=f"get {need}")
        makes = {"uv": {name: "yes"}} if promise else {}
        return [change(name, stage, makes=makes, **fields)]

    return SimpleNamespace(NAME=name, STAGE=stage, plan=plan, query=lambda want: {})


@pytest.fixture
def plan(monkeypatch):
    def with_nouns(*nouns, raw=BARE):
        monkeypatch.setattr(resources, "ORDER", nouns)
        return planner.plan("h", WANT, raw)

    return with_nouns


def names(plan):
    return [[change.resource for change in one.changes] for one in plan.rounds]


def test_nothing_to_do(plan):
    empty = plan(SimpleNamespace(NAME="a", STAGE=Stage.SOURCES, plan=lambda want, seen: []))
    assert empty.empty
    assert (empty.host, empty.stack) == ("h", "lab")


def test_a_round_holds_the_changes_of_one_stage_in_the_resources_order(plan):
    assert names(
        plan(
            noun("runtime", Stage.RUNTIME),
            noun("second", Stage.SOURCES),
            noun("reboot", Stage.REBOOT),
            noun("third", Stage.SOURCES),
            noun("packages", Stage.PACKAGES),
        )
    ) == [["second", "third"], ["packages"], ["reboot"], ["runtime"]]


def test_within_a_round_a_resource_sees_what_those_before_it_promise(plan):
    assert names(
        plan(noun("first", Stage.PACKAGES), noun("second", Stage.PACKAGES, needs=["first"]))
    ) == [["first", "second"]]


def test_within_a_round_a_resource_does_not_see_what_those_after_it_promise(plan):
    found = plan(noun("second", Stage.PACKAGES, needs=["first"]), noun("first", Stage.PACKAGES))
    assert names(found) == [["second", "first"]]
    assert [change.resource for change in found.now.blocked] == ["second"]


def test_a_later_round_sees_what_earlier_rounds_promise(plan):
    found = plan(noun("first", Stage.SOURCES), noun("second", Stage.RUNTIME, needs=["first"]))
    assert names(found) == [["first"], ["second"]]
    assert found.rounds[1].actionable


def test_an_earlier_stage_that_is_needed_again_makes_one_more_round(plan):
    def again(_want, seen):
        there = known(seen.uv, "uv")
        if not there.get("packages") or there.get("again"):
            return []
        return [change("again", Stage.SOURCES, makes={"uv": {"again": "yes"}})]

    found = plan(
        SimpleNamespace(NAME="again", STAGE=Stage.SOURCES, plan=again),
        noun("packages", Stage.PACKAGES),
    )
    assert names(found) == [["packages"], ["again"]]


def test_a_promise_that_changes_nothing_is_an_error_that_names_the_change(plan):
    with pytest.raises(ProvisionError, match=r"planning does not end.*endless:x"):
        plan(noun("endless", Stage.SOURCES, promise=False))


def test_planning_may_take_as_many_rounds_as_the_limit(plan):
    def step(_want, seen):
        done = len(known(seen.uv, "uv"))
        if done == planner.ROUND_LIMIT:
            return []
        return [change("step", Stage.SOURCES, makes={"uv": {str(done): "yes"}})]

    noun = SimpleNamespace(NAME="step", STAGE=Stage.SOURCES, plan=step)
    assert len(plan(noun).rounds) == planner.ROUND_LIMIT


def test_a_blocked_change_ends_the_plan_with_its_round(plan):
    found = plan(
        noun("fine", Stage.SOURCES),
        noun("blocked", Stage.SOURCES, needs=["nowhere"]),
        noun("later", Stage.RUNTIME),
    )
    assert names(found) == [["fine", "blocked"]]
    (blocked,) = found.now.blocked
    assert (blocked.id, blocked.blocked, blocked.hint, blocked.actions) == (
        "blocked:x",
        "nowhere is missing",
        "get nowhere",
        (),
    )
    assert not found.now.actionable


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"status": "timeout", "reason": "no answer within 30 s"}, "uv: no answer within 30 s"),
        ({"status": "error", "reason": "KeyError: 1"}, "uv: KeyError: 1"),
        ({"status": "absent"}, "uv: not on this host"),
    ],
)
def test_a_fact_that_is_not_known_blocks_and_is_never_taken_for_missing(plan, answer, reason):
    raw = {"schema": 1, "facts": {**BARE["facts"], "uv": answer}}
    found = plan(noun("a", Stage.PACKAGES), raw=raw)
    assert [change.blocked for change in found.now.changes] == [reason]


def test_what_is_awaited_holds_up_nothing(plan):
    awaited = change("wheel", Stage.RUNTIME, actions=(), awaited="nobody has built it")
    found = plan(
        SimpleNamespace(NAME="wheel", STAGE=Stage.RUNTIME, plan=lambda want, seen: [awaited]),
        noun("other", Stage.RUNTIME),
    )
    assert names(found) == [["other"]]
    assert found.awaited == (awaited,)


def test_a_host_that_lacks_only_what_is_awaited_is_as_wanted(plan):
    awaited = change("wheel", Stage.RUNTIME, actions=(), awaited="nobody has built it")
    found = plan(
        SimpleNamespace(NAME="wheel", STAGE=Stage.RUNTIME, plan=lambda want, seen: [awaited])
    )
    assert found.empty
    assert found.awaited == (awaited,)


def test_planning_leaves_the_facts_as_they_were(plan):
    plan(noun("a", Stage.SOURCES), noun("b", Stage.RUNTIME, needs=["a"]))
    assert facts.parse(BARE).uv == {}
