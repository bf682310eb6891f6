"""Trials on a host: each under its deadline, whatever the interpreter does."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from samples import Says

from provision import facts, trials, wire
from provision.errors import ProvisionError
from provision.facts import Absent, Unknown
from provision.facts.trials import TYPES, Hung, parse
from provision.remote import process
from provision.remote import trials as remote
from provision.remote.command import Missing

GPUS = {"status": "absent", "reason": "no nvidia-smi"}


@pytest.fixture
def attempt(monkeypatch, tmp_path):
    """Tries a script, each word of which is a trial, with a GPU-less look at the end."""

    def collect(query):
        raise Missing("no nvidia-smi")

    monkeypatch.setattr(remote.gpus, "collect", collect)
    monkeypatch.setattr(remote.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(process, "GRACE", 2.0)
    monkeypatch.setattr(remote, "SETTLE", 0.0)

    def try_(script, *names, python=sys.executable, deadline=20.0, env=None):
        wanted = [
            {"name": name, "does": name, "deadline": deadline, "env": env or {}} for name in names
        ]
        said = remote.attempt(python, script, wanted)
        assert list(tmp_path.iterdir()) == []
        assert said["after"]["status"] == "absent"
        return said["trials"]

    return try_


SAY = "import json, os, sys\nprint('a library says hello')\n"


def test_the_last_line_is_the_answer_whatever_libraries_print(attempt):
    said = attempt(SAY + "print(json.dumps({'did': sys.argv[1]}))", "kernel", "p2p")
    assert {name: one["value"] for name, one in said.items()} == {
        "kernel": {"did": "kernel"},
        "p2p": {"did": "p2p"},
    }
    assert all(one["status"] == "ok" for one in said.values())


def test_what_is_not_there_is_absent(attempt):
    said = attempt(SAY + "print(json.dumps({'absent': 'no torch'}))", "kernel")
    assert (said["kernel"]["status"], said["kernel"]["reason"]) == ("absent", "no torch")


def test_an_interpreter_that_is_not_there_is_absent(attempt):
    said = attempt("", "kernel", python="/nowhere/python")
    assert said["kernel"]["status"] == "absent"
    assert "/nowhere/python" in said["kernel"]["reason"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise RuntimeError('CUDA error: out of memory')", "exits 1: .*CUDA error: out of memory"),
        ("import os; os.kill(os.getpid(), 9)", "exits -9: no message"),
        ("print('no JSON')", "exits 0: no JSON"),
        ("", "exits 0: no message"),
    ],
)
def test_a_trial_that_fails_says_how(attempt, script, reason):
    (one,) = attempt(script, "kernel").values()
    assert one["status"] == "failed"

    assert re.match(reason, one["reason"])


def test_of_a_long_complaint_the_end_is_kept(attempt):
    (one,) = attempt("import sys; sys.exit('x' * 9000 + ' the cause')", "kernel").values()
    assert one["reason"].endswith(" the cause")
    assert len(one["reason"]) < remote.LONG + 20


HANG = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[0] + ".pids", "w").write(f"{child.pid}")
time.sleep(600)
"""


def test_what_hangs_is_ended_with_its_children_and_nothing_more_is_tried(attempt, monkeypatch):
    pids = []
    real = process.run

    def watched(argv, **options):
        try:
            return real(argv, **options)
        finally:
            pids.append(int(Path(f"{argv[1]}.pids").read_text()))

    monkeypatch.setattr(process, "run", watched)
    said = attempt(HANG, "allreduce", "vllm", deadline=1.5)
    assert said["allreduce"]["status"] == "hung"
    assert said["vllm"] == {"status": "skipped", "reason": "not tried: allreduce hung"}
    (pid,) = pids
    end = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and _living(pid):
        assert time.monotonic() < end
        time.sleep(0.05)


def _living(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"


def test_a_trial_sees_its_own_variables_and_cuda_s_and_no_others(attempt, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    said = attempt(
        SAY + "print(json.dumps(dict(os.environ)))", "one", env={"NCCL_P2P_DISABLE": "1"}
    )
    seen = said["one"]["value"]
    assert (seen["NCCL_DEBUG"], seen["NCCL_P2P_DISABLE"]) == ("WARN", "1")
    assert "SECRET_TOKEN" not in seen


# --- the script itself -------------------------------------------------------------------------


def test_without_torch_every_trial_of_the_script_says_so(tmp_path):
    for does in {does for does, _ in trials.TRIALS.values()}:
        argv = [sys.executable, "-I", str(trials.SCRIPT), does]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert "has no torch" in json.loads(done.stdout)["absent"]


def test_the_script_knows_every_trial():
    order = trials.order("/usr/bin/python3")
    known = {"kernel", "bandwidth", "p2p", "allreduce", "flash_attn", "vllm"}
    assert {trial["does"] for trial in order["trials"]} == known
    assert "after" not in {trial["name"] for trial in order["trials"]}
    assert {trial["name"] for trial in order["trials"]} == TYPES.keys() - {"after"}
    assert trials.deadline() > sum(trial["deadline"] for trial in order["trials"])


# --- what the controller makes of it -----------------------------------------------------------


def ok(value):
    return {"status": "ok", "value": value}


def said(**answers):
    return {"trials": answers, "after": GPUS}


def test_outcomes_become_values_or_say_why_there_is_none():
    found = parse(
        said(
            kernel=ok([{"gpu": 0, "exact": True, "error": 1e-7}]),
            bandwidth={"status": "failed", "reason": "exits 1: no"},
            allreduce={"status": "hung", "reason": "no answer within 180 s"},
            vllm={"status": "absent", "reason": "vLLM is not in this environment"},
            flash_attn={"status": "skipped", "reason": "not tried: allreduce hung"},
        )
    )
    assert found.kernel[0].exact
    assert found.bandwidth == Unknown("exits 1: no")
    assert found.allreduce == Hung("no answer within 180 s")
    assert found.vllm == Absent()
    assert found.flash_attn == Unknown("not tried: allreduce hung")
    assert found.p2p == Unknown("the probe did not say")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({}, "expected a mapping of trials"),
        (said(kernel=ok([{"gpu": 0}])), r"kernel\.0\.exact"),
        (said(allreduce=ok({"gpus": "x"})), r"allreduce\.gpus"),
        (said(kernel=7), "kernel: expected a mapping"),
    ],
)
def test_an_answer_of_another_shape_is_refused(raw, says):
    with pytest.raises(facts.WrongFacts, match=says):
        parse(raw)


def test_the_request_goes_over_the_wire_and_an_error_comes_back():
    host = Says(json.dumps(said()))
    assert wire.attempt(host, "/usr/bin/python3") == said()
    assert b'"python": "/usr/bin/python3"' in host.stdin
    with pytest.raises(ProvisionError, match="no room"):
        wire.attempt(Says('{"event": "error", "reason": "no room"}'), os.devnull)
