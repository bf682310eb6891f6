"""Long commands of the lab: whoever waits hears how far they are, and why they failed."""

import os

import pytest

from provision.lab import store
from provision.lab.store import LabError


@pytest.fixture
def said(monkeypatch, tmp_path):
    """Runs a shell script that takes long; what was said meanwhile."""
    monkeypatch.setattr(store, "SILENCE", 0.02)

    def call(script):
        lines = []

        def say(line):
            lines.append(line)
            (tmp_path / "said").write_text("".join(lines))

        wait = f"until grep -qs second {tmp_path}/said; do sleep 0.01; done"
        script = script.replace("WAIT", wait)
        store.run_long(["sh", "-c", script], what="making a root", say=say)
        return lines

    return call


def test_a_long_command_tells_the_last_line_of_its_output(said):
    """It does not end before that was told."""
    lines = said("echo first; echo second >&2; WAIT")
    assert lines[-1].endswith(" s so far: second")
    assert all(line.startswith("lab: making a root, ") for line in lines)


def test_a_failure_has_the_end_of_its_output(said):
    with pytest.raises(LabError) as caught:
        said("for n in 1 2 3 4 5 6 7 8 9; do echo line $n; done; exit 7")
    what = caught.value.what
    assert what.startswith("making a root failed (exit 7): line 2\n")
    assert what.endswith("line 9")


def test_an_interruption_leaves_no_process(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "SILENCE", 0.02)
    started = tmp_path / "pid"

    def stop(line):
        if started.exists():
            raise KeyboardInterrupt

    script = f"echo $$ > {started}.new; mv {started}.new {started}; exec sleep 600"
    with pytest.raises(KeyboardInterrupt):
        store.run_long(["sh", "-c", script], what="waiting", say=stop)
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
