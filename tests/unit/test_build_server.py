"""The gate with real processes: a small program stands in for the compiler, memory is real."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wheels.remote import records
from wheels.remote.server import Server

ROOT = Path(__file__).parents[2]
MIB = 2**20
GATE = [
    sys.executable,
    "-c",
    "import sys; from wheels.remote.gate import main; sys.exit(main(sys.argv[1:]))",
]
COMPILER = """\
#!{python}
import os, pathlib, sys, time
source = pathlib.Path(sys.argv[sys.argv.index("-c") + 1])
size, seconds, status = source.read_text().split()
counts = pathlib.Path("counts"); counts.open("a").write(source.name + "\\n")
held = b"x" * (int(size) * 2**20)
end = time.process_time() + float(seconds)
while time.process_time() < end:
    pass
if int(status):
    sys.exit("error: it does not compile")
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text("made")
"""


@pytest.fixture
def build(tmp_path):
    """A build of units with so many MiB, seconds and an exit status, and its gate."""
    compiler = tmp_path / "nvcc"
    compiler.write_text(COMPILER.format(python=sys.executable))
    compiler.chmod(0o755)
    said = []
    running = []

    def start(units, budget, cores=2, expected=100, pressure=0.0, **order):
        curve = {"curve": [[0.0, MIB], [20.0, expected * MIB]], "cores": 1.0}
        order = {"units": {}, "guess": curve, "budget": budget * MIB, "cores": cores} | order
        order = {"declared": True, "reserve": 0} | order
        server = Server(tmp_path, order, lambda: 1000 * MIB, lambda: pressure, said.append)
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "FIRSTLIGHT_GATE": str(server.path),
            "FIRSTLIGHT_NVCC": str(compiler),
        }
        gates = {}
        for name, (size, seconds, status) in units.items():
            source = tmp_path / f"{name}.cu"
            source.write_text(f"{size} {seconds} {status}")
            argv = [*GATE, "-c", str(source), "-o", str(tmp_path / f"{name}.o")]
            gates[name] = subprocess.Popen(
                argv, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
            )
        running.extend(gates.values())
        return server, gates

    yield start, said, tmp_path
    for gate in running:
        gate.kill()
        gate.wait()


def ended(server, gates, patience=60.0):
    """Turn the server until all gates ended; their exit statuses, and how many ran at once."""
    end = time.monotonic() + patience
    most = 0
    while any(gate.poll() is None for gate in gates.values()):
        assert time.monotonic() < end, "it does not end"
        server.turn()
        most = max(most, sum(peer.inside for peer in server.peers.values()))
    server.close()
    return {name: gate.returncode for name, gate in gates.items()}, most


def counts(folder):
    lines = (folder / "counts").read_text().split()
    return {name: lines.count(name) for name in set(lines)}


def test_every_unit_once_and_no_more_than_fit(build):
    start, said, folder = build
    units = {f"u{n}": (20, 0.3, 0) for n in range(4)}
    statuses, most = ended(*start(units, budget=250, cores=8))
    assert set(statuses.values()) == {0}
    assert most == 2  # of 100 MiB each, as expected, in 250
    assert counts(folder) == {f"u{n}.cu": 1 for n in range(4)}
    rows = records.read(folder / "units.jsonl")
    assert sorted(row["unit"] for row in rows) == [f"u{n}.cu" for n in range(4)]
    assert all(20 * MIB < row["peak"] < 60 * MIB for row in rows)
    states = [event for event in said if event["event"] == "state"]
    assert {state["done"] + state["running"] + state["waiting"] for state in states} == {4}


def test_an_error_of_the_compilers_is_the_builds(build):
    start, _, folder = build
    server, gates = start({"wrong": (5, 0.1, 1)}, budget=250)
    statuses, _ = ended(server, gates)
    assert statuses == {"wrong": 1}
    assert "it does not compile" in gates["wrong"].stderr.read()
    assert counts(folder) == {"wrong.cu": 1}


def test_a_killed_compiler_runs_again_and_ninja_never_knows(build):
    start, said, folder = build
    server, gates = start({"a": (20, 2.0, 0), "b": (20, 2.0, 0)}, budget=250)
    killed = False
    while not killed:
        server.turn()
        sessions = [peer.session for peer in server.peers.values() if peer.session]
        if (folder / "counts").exists() and len(counts(folder)) == 2:
            os.killpg(sessions[0], signal.SIGKILL)
            killed = True
    statuses, _ = ended(server, gates)
    assert statuses == {"a": 0, "b": 0}
    assert sum(counts(folder).values()) == 3
    assert [event["event"] for event in said if event["event"] == "again"] == ["again"]


def test_a_unit_that_is_killed_alone_ends_the_build_and_says_what_it_needs(build):
    start, _, _ = build
    server, gates = start({"big": (50, 5.0, 0)}, budget=250)
    while not any(peer.session for peer in server.peers.values()):
        server.turn()
    (session,) = [peer.session for peer in server.peers.values()]
    server.turn()
    os.killpg(session, signal.SIGKILL)
    statuses, _ = ended(server, gates)
    assert statuses == {"big": 137}
    assert "big.cu was killed with nothing beside it" in server.trouble


def test_what_is_finished_is_not_compiled_again(build):
    start, _, folder = build
    ended(*start({"a": (5, 0.1, 0), "b": (5, 0.1, 0)}, budget=250))
    (folder / "b.o").write_text("another object")
    statuses, _ = ended(*start({"a": (5, 0.1, 0), "b": (5, 0.1, 0)}, budget=250))
    assert statuses == {"a": 0, "b": 0}
    assert counts(folder) == {"a.cu": 1, "b.cu": 2}


def test_units_that_ninja_does_not_start_again_are_counted(build):
    start, said, _ = build
    ended(*start({"a": (5, 0.1, 0), "b": (5, 0.1, 0)}, budget=250))
    ended(*start({"c": (5, 2.5, 0)}, budget=250))
    lines = [event["line"] for event in said if event["event"] == "says"]
    assert lines == ["units that were compiled before, and are not again: 2"]


def test_compilers_end_with_their_gate_and_with_their_build(build):
    start, _, _ = build
    server, gates = start({"a": (5, 60.0, 0), "b": (5, 60.0, 0)}, budget=250)
    while len([peer for peer in server.peers.values() if peer.session]) < 2:
        server.turn()
    sessions = {peer.unit.name: peer.session for peer in server.peers.values()}
    gates["a"].kill()
    gates["a"].wait()
    server.turn()
    server.turn()
    assert not alive(sessions["a.cu"])
    server.listener.close()
    for peer in server.peers.values():
        peer.socket.close()
    assert gates["b"].wait(20) != 0
    assert not alive(sessions["b.cu"])


def alive(session):
    try:
        os.kill(session, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{session}/status").read_text()


def test_a_compiler_that_grows_beyond_its_estimate_is_kept_within_the_budget(build):
    """Both are expected to take 20 MiB and take 120: one of them gives way."""
    start, _, folder = build
    units = {"a": (120, 1.0, 0), "b": (120, 1.0, 0)}
    statuses, _ = ended(*start(units, budget=200, expected=20))
    assert statuses == {"a": 0, "b": 0}
    rows = records.read(folder / "memory.jsonl")
    assert rows
    assert any(row.get("killed") for row in records.read(folder / "units.jsonl"))


@pytest.mark.parametrize(
    ("declared", "pressure", "expected"), [(False, 30.0, 1), (False, 3.0, 2), (True, 30.0, 2)]
)
def test_a_host_that_is_short_of_memory_is_asked_for_little(build, declared, pressure, expected):
    start, said, _ = build
    units = {"a": (20, 0.3, 0), "b": (20, 0.3, 0)}
    statuses, most = ended(*start(units, budget=500, declared=declared, pressure=pressure))
    assert statuses == {"a": 0, "b": 0}
    assert most == expected
    assert any("short of memory" in event.get("line", "") for event in said) == (expected == 1)
