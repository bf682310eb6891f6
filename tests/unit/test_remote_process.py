"""A command that is not done in time, and what it started."""

import subprocess
import time
from pathlib import Path

import pytest

from provision.remote import locks, process
from provision.remote.command import ENV
from wheels.remote import processes


@pytest.fixture
def run(tmp_path):
    """Runs a shell script, its output going to a file; gives its status."""

    def call(script, timeout=30.0):
        with (tmp_path / "output").open("ab") as output:
            argv = ["sh", "-c", script]
            return process.run(argv, output=output, env=ENV, timeout=timeout)

    return call


def test_a_command_has_no_input_and_says_what_it_says(run, tmp_path):
    assert run("cat; echo out; echo err >&2; exit 3") == 3
    assert (tmp_path / "output").read_text() == "out\nerr\n"


def test_a_command_leads_a_session_of_its_own(run):
    assert run('test "$(cut -d" " -f6 /proc/$$/stat)" = $$') == 0


def test_a_command_that_is_not_done_in_time_is_ended(run, tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        run(f"echo $$ > {tmp_path}/first; exec sleep 600", timeout=0.5)
    assert not living(tmp_path / "first")


def living(path):
    """Whether the process that wrote its id there goes on."""
    stat = Path(f"/proc/{path.read_text().strip()}/stat") if path.exists() else Path("/nowhere")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def started():
    """Starts a shell script as a session of its own; gives it once the files are there."""
    running = []

    def start(script, *files):
        one = subprocess.Popen(["sh", "-c", script], start_new_session=True)
        running.append(one)
        end = time.monotonic() + 60.0
        while not all(file.exists() and file.stat().st_size for file in files):
            assert time.monotonic() < end, "it does not start"
            time.sleep(0.01)
        return one

    yield start
    for one in running:
        one.kill()
        one.wait()


@pytest.mark.parametrize(
    "inner",
    [
        "echo $$ > {0}; sleep 600",
        "setsid sh -c 'echo $$ > {0}; sleep 600'",
        "trap '' TERM; echo $$ > {0}; while :; do sleep 600; done",
    ],
    ids=["a child", "a session of its own, as dpkg has under apt-get", "deaf to TERM"],
)
def test_nothing_that_it_started_outlasts_it(started, tmp_path, monkeypatch, inner):
    monkeypatch.setattr(process, "GRACE", 0.5)
    second = tmp_path / "second"
    (tmp_path / "inner").write_text(inner.format(second))
    one = started(f"sh {tmp_path}/inner & wait", second)
    process._end(one)
    assert one.poll() is not None
    assert not living(second)


def test_a_command_may_end_in_its_own_way(started, tmp_path):
    ready, tidied = tmp_path / "ready", tmp_path / "tidied"
    script = f"trap 'touch {tidied}; exit 1' TERM; sleep 600 & echo $$ > {ready}; wait"
    process._end(started(script, ready))
    assert tidied.exists()


def test_other_processes_are_left_alone(started, tmp_path):
    other = started(f"echo $$ > {tmp_path}/other; exec sleep 600", tmp_path / "other")
    process._end(started(f"echo $$ > {tmp_path}/one; exec sleep 600", tmp_path / "one"))
    assert other.poll() is None


def test_a_process_that_ends_while_it_is_looked_at_is_none(monkeypatch):
    monkeypatch.setattr(process.Path, "glob", lambda self, pattern: [Path("/proc/0/stat")])
    assert process._processes() == {}


def test_a_process_may_be_called_what_it_likes(started, tmp_path):
    ready = tmp_path / "ready"
    one = started(f"printf '\\377' > /proc/$$/comm; echo $$ > {ready}; sleep 600 & wait", ready)
    assert one.pid in process._processes()
    assert processes.usage([one.pid])[one.pid].memory > 0
    assert locks._name(one.pid) == "\N{REPLACEMENT CHARACTER}"
    process._end(one)
