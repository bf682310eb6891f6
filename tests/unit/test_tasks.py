"""The tasks as a user calls them, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from invoke import Context

import tasks
from provision.commands import hosts, runs

ROOT = Path(__file__).parents[2]
HEAVY = ("pydantic", "fabric", "paramiko", "rich", "packaging")
"""Libraries that our part of `invoke --list` does without (yaml comes with Invoke itself)."""


def every(collection, prefix=""):
    for name, task in collection.tasks.items():
        yield prefix + name, task
    for name, inner in collection.collections.items():
        yield from every(inner, f"{prefix}{name}.")


ARGUMENTS = {name: task.get_arguments() for name, task in every(tasks.namespace)}
"""Of every task; Invoke gives their help texts only the first time."""


def call(*argv, code):
    """Run code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.fixture(scope="module")
def listed():
    """`invoke --list`, and the modules that it loaded beyond Invoke's own."""
    code = (
        "import sys\n"
        "from invoke.main import program\n"
        "own = set(sys.modules)\n"
        "try:\n    program.run()\n"
        "finally:\n    print(*set(sys.modules) - own, file=sys.stderr)\n"
    )
    done = call("--list", code=code)
    assert done.returncode == 0
    return done.stdout, done.stderr.split()


def test_the_tasks_that_there_are():
    ours = {"provision", "plan", "apply", "cancel", "rollback", "history", "verify", "facts"}
    ours |= {"topology", "lock", "check-stack"}
    ours |= {"build.build", "build.report", "build-flash-attn"}
    ours |= {"wheels.list", "wheels.verify", "wheels.prune", "wheels.push"}
    assert set(ARGUMENTS) == ours | {"lab.up", "lab.down", "lab.status", "lab.ssh"}


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_every_task_is_listed_with_what_it_does(listed, name):
    rows = {row[0]: row[1:] for line in listed[0].splitlines() if (row := line.split())}
    assert rows.get(name), f"{name} is not listed, or says nothing"


@pytest.mark.parametrize("library", HEAVY)
def test_the_list_is_shown_without_any_heavy_library(listed, library):
    assert "tasks" in listed[1]
    assert library not in listed[1]


def test_options_have_no_short_forms_that_could_be_mistaken():
    names = {name for arguments in ARGUMENTS.values() for a in arguments for name in a.names}
    assert {name for name in names if len(name) == 1} == set()


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_every_option_says_what_it_is(name):
    assert [argument.name for argument in ARGUMENTS[name] if not argument.help] == []


def words(name):
    """How a task is asked for its help: behind a task that takes a word, -h would be that word."""
    yield ["invoke", "--help", name]
    if not any(argument.positional for argument in ARGUMENTS[name]):
        yield ["invoke", name, "-h"]
        yield ["invoke", name, "--help"]


def test_asking_for_help_runs_no_task():
    asked = [argv for name in ARGUMENTS for argv in words(name)]
    code = (
        "import json, sys\n"
        "from invoke.main import program\n"
        "for argv in json.loads(sys.argv[1]):\n"
        "    program.run(argv, exit=False)\n"
        "assert 'provision' not in sys.modules, 'a body ran'\n"
    )
    done = call(json.dumps(asked), code=code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: ") == len(asked)


def test_an_unreachable_host_never_ends_0(tmp_path, invoke):
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        "default: a\nhosts:\n  a: {address: 127.0.0.1, port: 1, user: root, stack: lab}\n"
    )
    done = invoke("verify", inventory=inventory)
    assert done.code == 1
    assert "error: a: 127.0.0.1 port 1 can't be reached" in done.err
    assert f"{inventory.name}:3" in done.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["verify", "--host", "zz"], "inventory.yaml: there is no host 'zz'"),
        (["apply", "none.json"], "none.json: can't be read as a plan"),
        (["lock", "--check", "--stack", "zz"], "there is no stack 'zz' in provision/stacks"),
        (["check-stack", "--stack", "zz"], "there is no stack 'zz' in provision/stacks"),
        (["check-stack", "--host", "zz"], "inventory.yaml: there is no host 'zz'"),
    ],
)
def test_wrong_input_ends_2(invoke, tmp_path, argv, words):
    (tmp_path / "inventory.yaml").write_text("default: a\nhosts:\n  a: {stack: lab}\n")
    done = invoke(*argv, inventory=tmp_path / "inventory.yaml")
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_behind_a_task_that_takes_a_word_ends_2_and_says_how_to_get_it(invoke, word):
    done = invoke("apply", word)
    assert (done.code, done.out) == (2, "")
    assert "apply takes a plan file" in done.err
    assert "invoke --help apply" in done.err


@pytest.mark.parametrize("argv", [["verify", "--hots", "a"], ["no-such-task"], ["apply"]])
def test_what_invoke_can_t_parse_is_no_success(invoke, argv):
    assert invoke(*argv).code != 0


@pytest.mark.parametrize("code", [1, 2, 3, 130])
def test_a_command_s_code_is_the_task_s(code, monkeypatch):
    monkeypatch.setattr(hosts, "verify", lambda hosts, groups, **_options: code)
    with pytest.raises(tasks.Exit) as caught:
        tasks.verify(Context())
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("module", "name", "given", "expected"),
    [
        (
            hosts,
            "apply",
            {"file": "x.json", "wait": True},
            ((Path("x.json"),), {"json": False, "verbose": False, "wait": True}),
        ),
        (runs, "cancel", {"host": ["a"]}, ((["a"], ()), {"json": False})),
        (
            hosts,
            "provision",
            {"json": True},
            (((), ()), {"json": True, "verbose": False, "accept_new": False}),
        ),
        (runs, "history", {"run": "r1"}, (((), ()), {"run": "r1", "json": False})),
    ],
)
def test_what_a_task_is_told_reaches_its_command(monkeypatch, module, name, given, expected):
    seen = []
    monkeypatch.setattr(module, name, lambda *args, **options: seen.append((args, options)))
    getattr(tasks, name)(Context(), **given)
    assert seen == [expected]


def test_options_reach_the_command(monkeypatch):
    seen = []
    monkeypatch.setattr(hosts, "plan", lambda *args, **options: seen.append((args, options)))
    tasks.plan(Context(), host=["a"], group=["g"], json=True, output="x.json")
    assert seen == [
        (
            (["a"], ["g"]),
            {"json": True, "verbose": False, "output": Path("x.json"), "accept_new": False},
        )
    ]
