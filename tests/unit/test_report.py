"""What is printed, and where: lines for people, JSON alone on stdout, errors on stderr."""

import io
import json
import re

import pytest

from provision.checks.finding import Action, Finding
from provision.commands import saved_plan
from provision.engine import NotConverged
from provision.errors import ProvisionError, UsageError
from provision.facts import Absent, Facts, Iommu, Unknown
from provision.plan import (
    Apt,
    Change,
    Plan,
    Reboot,
    Round,
    Run,
    Stage,
)
from provision.report import Outcome, Report
from provision.report.facts import summary
from provision.transport import Cost


def change(subject="s", **fields):
    base = {"before": "old", "after": "new", "why": "it is wanted"}
    return Change(resource="r", subject=subject, stage=Stage.SOURCES, **{**base, **fields})


def planned(*rounds, awaited=()):
    rounds = tuple(Round(changes=changes) for changes in rounds)
    return Plan(host="h", stack="lab", rounds=rounds, awaited=awaited)


@pytest.fixture
def printed(capsys):
    """What a report prints to stdout, and nothing to stderr."""

    def call(name, *args, verbose=False, **options):
        getattr(Report(verbose=verbose), name)(*args, **options)
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return call


APT = Apt(
    argv=("apt-get", "install", "a=1"),
    install={"a": [None, "1"], "b": ["1", "2"]},
    remove={"old": "0.9"},
)


def test_a_plan_shows_before_and_after_why_commands_and_removals(printed):
    text = printed("plan", planned([change(actions=(APT,))]), commands=True)
    assert text.splitlines() == [
        "h  round 1 of 1, now: 1 change",
        "  ~ r:s: old → new",
        "      because it is wanted",
        "        $ apt-get install a=1",
        "          installs 2: a, b",
        "          removes old 0.9",
    ]


def test_commands_are_shown_of_the_first_round_alone(printed):
    plan = planned([change(actions=(Run(argv=("one",)),))], [change(actions=(Run(argv=("two",)),))])
    text = printed("plan", plan, commands=True)
    assert "$ one" in text
    assert "$ two" not in text
    assert "round 2 of 2, expected then: 1 change\n" in text


def test_without_commands_a_plan_shows_none(printed):
    assert "$" not in printed("plan", planned([change(actions=(APT,))]))


def test_a_blocked_change_shows_its_reason_and_its_hint(printed):
    text = printed("plan", planned([change(blocked="no GPU", hint="seat the card"), change("t")]))
    assert text.splitlines() == [
        "h  round 1 of 1, now: 2 changes",
        "  ! r:s: can't be planned: no GPU",
        "      hint: seat the card",
        "  ~ r:t: old → new",
        "      because it is wanted",
    ]


def test_a_change_that_restarts_the_host_is_marked_without_colour(printed):
    assert "  ↻ r:s: old → new" in printed("plan", planned([change(actions=(Reboot(),))]))


def test_what_is_awaited_is_shown(printed):
    awaited = (change("main/wheel", awaited="nobody has built it"),)
    assert printed("plan", planned(awaited=awaited)).splitlines() == [
        "h  nothing to do: as stack lab wants",
        "  … main/wheel: awaited: nobody has built it",
    ]


def test_markup_in_what_a_host_says_is_printed_as_it_is(printed):
    text = printed("plan", planned([change(before="[bold]x[/bold]", after="[/]")]))
    assert "[bold]x[/bold] → [/]" in text


def test_long_lines_are_not_broken(printed):
    assert "x" * 500 in printed("say", "h", "x" * 500)


def test_with_json_stdout_has_data_alone(capsys):
    report = Report(json=True)
    report.say("h", "working")
    report.plan(planned([change()]), commands=True)
    report.data({"é": [1, None]})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"é": [1, None]}
    assert "é" in out
    assert "working" in err
    assert "old → new" in err


def test_an_error_goes_to_stderr_with_its_log_and_hint(capsys):
    Report().error(NotConverged("h: [x] failed", hint="try again", log=("one", "two")))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["error: h: [x] failed", "  | one", "  | two", "", "hint: try again"]


def test_an_error_without_a_hint_has_no_empty_one(capsys):
    Report().error(ProvisionError("it failed"))
    assert capsys.readouterr().err == "error: it failed\n"


EVENTS = {
    "start": ({"run": "r1"}, "h  run r1 started; its log on the host: /var/log/firstlight/r1.log"),
    "waiting": ({"reason": "waiting for L: held by apt"}, "  … waiting for L: held by apt"),
    "done": ({"id": "a", "seconds": 1.25}, "  ✓ a  1.2 s"),
    "failed": ({"id": "a", "reason": "sh exits 1"}, "  ✗ a: sh exits 1"),
    "uploading": ({"bytes": 2_500_000}, "h  uploading 2.5 MB"),
    "reconnecting": (
        {"reason": "h: silent"},
        "h  h: silent; connecting again",
    ),
    "fetching": ({"what": "uv 1"}, "h  fetching uv 1"),
    "cancelling": ({}, "h  asked to stop before the next change"),
    "other-kernel": (
        {"kernel": "6.1", "expected": "6.2"},
        "h  came back with kernel 6.1 instead of 6.2",
    ),
    "cancelled": ({"by": "them@there", "before": "b"}, None),
    "stale": ({"reason": "it restarted"}, "h  it restarted: planning anew"),
    "rebooting": ({}, "h  rebooting"),
    "back": ({"seconds": 61.04}, "h  back after 61.0 s"),
    "output": ({"line": "Reading"}, None),
    "alive": ({}, None),
    "change": ({"id": "a"}, None),
    "probing": ({}, None),
}


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_in_one_line_or_none(printed, name):
    fields, line = EVENTS[name]
    text = printed("event", "h", {"event": name, **fields})
    assert text == ("" if line is None else f"{line}\n")


def test_verbose_shows_the_output_of_commands(printed):
    text = printed("event", "h", {"event": "output", "line": "[x] Reading"}, verbose=True)
    assert text == "  | [x] Reading\n"


def test_whose_run_is_joined(printed):
    event = {"event": "joining", "run": "r1", "who": "them@there", "since": 0.0}
    text = printed("event", "h", event)
    assert re.fullmatch(r"h  run r1 of them@there is going on since \d\d:\d\d:\d\d\n", text)


def test_later_rounds_are_shown_whole_only_the_first_time(capsys):
    report = Report()
    plan = planned([change("one")], [change("two")])
    report.event("h", {"event": "planned", "plan": plan})
    assert "r:two" in capsys.readouterr().out
    report.event("h", {"event": "planned", "plan": plan})
    again = capsys.readouterr().out
    assert "r:one" in again
    assert "r:two" not in again


def test_how_a_saved_plan_and_a_fresh_one_differ(printed):
    def plan(*changes):
        return planned(changes)

    def acting(subject, *argv):
        return change(subject, actions=(Run(argv=argv),))

    saved = plan(acting("gone", "x"), acting("other", "x"), acting("same", "x")).to_data()
    fresh = plan(acting("fresh", "x"), acting("other", "y"), acting("same", "x"))
    rows = saved_plan.differences(saved, fresh)
    first, *lines = printed("differences", "h", rows).splitlines()
    assert "nothing was done" in first
    assert lines == [
        "  ≠ r:fresh: in the fresh plan alone",
        "  ≠ r:gone: in the saved plan alone",
        "  ≠ r:other: in both, with other actions",
    ]


def test_a_saved_plan_against_a_host_with_nothing_to_do(printed):
    assert saved_plan.differences(planned([change()]).to_data(), planned()) == {
        "r:s": "in the saved plan alone"
    }


def finding(action, name="gpu.count"):
    reason = "" if action is Action.NONE else "one is missing"
    return Finding(
        id=name, subject="host", expected="8", observed="7", action=action, reason=reason
    )


def test_a_locale_without_our_marks_is_written_to_in_utf_8(monkeypatch):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2)]
    monkeypatch.setattr("sys.stdout", streams[0])
    monkeypatch.setattr("sys.stderr", streams[1])
    report = Report(json=True)
    report.findings("h", [finding(Action.INSPECT)])
    report.data({"µ": "✓"})
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    assert json.loads(out) == {"µ": "✓"}
    assert "✗ gpu.count  host: count 7 instead of 8" in err


def test_findings_show_what_is_wrong_and_how_many_are_right(printed):
    rows = [finding(Action.INSPECT), finding(Action.NONE, "ok.row")]
    assert printed("findings", "h", rows).splitlines() == [
        "  ✗ gpu.count  host: count 7 instead of 8",
        "      one is missing → inspect",
        "h  1 of 2 checks as expected; inspect it, as its row says",
    ]
    assert "  ✓ ok.row  host: row 7" in printed("findings", "h", rows, verbose=True)


@pytest.mark.parametrize(
    ("rows", "then"),
    [
        ([finding(Action.PROVISION, "state.driver")], "invoke provision"),
        (
            [finding(Action.PROVISION, "state.driver"), finding(Action.INSPECT)],
            "invoke provision, which then checks what is left",
        ),
        (
            [finding(Action.PROVISION, "state.driver"), finding(Action.INSPECT, "state.uv")],
            "inspect it, as its row says",
        ),
        (
            [finding(Action.PROVISION, "driver.nvml"), finding(Action.INSPECT)],
            "inspect it, as its row says",
        ),
    ],
    ids=["changes alone", "changes and more", "a blocked change", "no changes"],
)
def test_while_there_is_something_to_provision_that_is_next(printed, rows, then):
    assert printed("findings", "h", rows).splitlines()[-1] == (
        f"h  0 of {len(rows)} checks as expected; {then}"
    )


@pytest.mark.parametrize(
    ("actions", "then"),
    [
        ((Action.INSPECT, Action.REBOOT), "reboot the host, then inspect what is left"),
        ((Action.RESET, Action.INSPECT, Action.REBOOT), "reboot the host, then inspect"),
        ((Action.RESET, Action.INSPECT), "--gpu-reset --id=N, then inspect what is left"),
        ((Action.RESTART, Action.INSPECT), "; inspect it, as its row says"),
        ((Action.RESET, Action.REBOOT), "; reboot the host"),
    ],
)
def test_a_reset_or_a_reboot_comes_before_an_inspection(printed, actions, then):
    rows = [finding(action) for action in actions]
    assert then in printed("findings", "h", rows).splitlines()[-1]


def test_the_cost_of_a_host(printed):
    assert printed("cost", "h", Cost(sessions=1, execs=3)) == "h  1 SSH session(s), 3 command(s)\n"


def test_every_fact_has_its_line(printed):
    answers = dict.fromkeys(Facts.__dataclass_fields__, Absent())
    answers["nvml"] = Unknown("no [x] answer")
    answers["iommu"] = Iommu(groups=16)
    text = printed("facts", "h", Facts(**answers))
    for name in Facts.__dataclass_fields__:
        assert re.search(rf"^ *{name} ", text, re.MULTILINE), name
    assert "unknown: no [x] answer" in text
    assert "groups 16" in text


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Iommu(groups=16), "groups 16"),
        ({"/a": None, "/b": 1}, "/a: None, /b: 1"),
        ({str(n): n for n in range(7)}, "0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, … (7)"),
        ([], "0: "),
        ([Iommu(groups=1)] * 3, "3: groups 1; groups 1"),
        ("x" * 200, "x" * 159 + "…"),
    ],
)
def test_a_fact_in_one_line(answer, expected):
    assert summary(answer) == expected


def test_nobody_is_asked_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("c\n"))
    with pytest.raises(EOFError):
        Report().ask("well? ")
    assert capsys.readouterr() == ("", "")


def ended(host, seconds, error=None, code=0):
    code = error.exit_code if error else code
    return Outcome(host=host, code=code, seconds=seconds, error=error)


def test_what_became_of_several_hosts(printed):
    rows = [
        ended("a", 1.25),
        ended("b", 61.0, ProvisionError("b: [x] gone\nand more")),
        ended("c", 0.0, UsageError("no stack")),
        ended("d", 0.0, code=3),
        ended("e", 0.0, code=130),
    ]
    lines = [line for line in printed("outcomes", rows).splitlines() if "│" in line]
    assert [[cell.strip() for cell in line.split("│")] for line in lines] == [
        ["a", "done", "1.2 s"],
        ["b", "b: [x] gone", "61.0 s"],
        ["c", "no stack", "0.0 s"],
        ["d", "differs", "0.0 s"],
        ["e", "cancelled", "0.0 s"],
    ]
