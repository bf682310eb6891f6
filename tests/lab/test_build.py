"""Wheels built for real: nvcc 13.1 and a compiler's memory, on a lab host that has little of it.

lab-kernels is small and its GPUs are simulated: nothing here computes on one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from provision import wheelhouse
from provision.wheelhouse import Manifest, load
from tests.lab.command import Command, wait_for
from tests.lab.trial import Trial
from wheels import profile, recipe, source
from wheels.plan import ROOT, UNIT
from wheels.remote import records

NAME = "b-build"
MEMORY = 3
"""GiB that the host has: two of the heaviest units at once do not fit."""
PLAIN = """\
cp -r {tree}/source /root/plain
rm -rf /root/plain/build
systemd-run --unit=plain -p MemoryMax={mib}M -p MemorySwapMax=0 -p OOMPolicy=continue \\
    -p WorkingDirectory=/root/plain \\
    -p StandardOutput=file:/root/plain.log -p StandardError=inherit \\
    -E PATH={tree}/environment/bin:/usr/bin:/bin -E CUDA_HOME={home} \\
    -E LAB_KERNELS_ARCHS=9.0 -E NVCC_THREADS=1 -E MAX_JOBS=2 \\
    {tree}/environment/bin/python -c 'import backend; backend.build_wheel("/root")'
"""
"""The same build as anybody types it, with a compiler per processor, in a little less memory than
the host has: it is to be killed before the host thrashes."""
PATIENCE = 900.0
"""Seconds for a whole build on two processors."""
RECIPE = "lab-kernels"


class Builder(Trial):
    """A trial that builds, with a wheelhouse of its own."""

    @property
    def tree(self) -> Path:
        """The build's folder, seen from outside."""
        (tree,) = (self.root / ROOT[1:]).iterdir()
        return tree

    def build(self, *words: str) -> Command:
        """Start the build."""
        return self.start("build", "--recipe", RECIPE, *words)

    def compiled(self) -> Counter[str]:
        """Unit → how often it was compiled to its end."""
        rows = records.read(self.tree / "units.jsonl")
        return Counter(row["unit"] for row in rows if row["exit"] == 0)

    def await_done(self, units: int) -> None:
        """Wait until so many units are compiled."""
        wait_for(
            lambda: (self.root / ROOT[1:]).is_dir() and self.compiled().total() >= units,
            f"{units} units",
        )

    def compilers(self) -> list[int]:
        """Process ids of the device compilers that run in this host's build."""
        here = re.compile(rf"/lab/{self.entry.name}-\w+/.*/{UNIT}\.service$", re.MULTILINE)
        found = []
        for group in Path("/proc").glob("[0-9]*/cgroup"):
            try:
                inside = here.search(group.read_text())
                if inside and (group.parent / "comm").read_text().strip() == "cicc":
                    found.append(int(group.parent.name))
            except OSError:
                continue
        return found


@pytest.fixture
def _profile_stays():
    """A build teaches the recipe's profile, which is the project's own file."""
    path = profile.FOLDER / f"{RECIPE}.json"
    before = path.read_bytes()
    yield
    path.write_bytes(before)


@pytest.fixture
def builder(finished, tmp_path, monkeypatch, _profile_stays):
    """A finished host with little memory."""
    monkeypatch.setenv(wheelhouse.VARIABLE, str(tmp_path / "wheels"))
    with Builder(NAME, finished, tmp_path, memory_gib=str(MEMORY)) as host:
        yield host


def units() -> set[str]:
    """The units that nvcc compiles."""
    one = recipe.load(RECIPE)
    return set(source.units(source.fetch(one), one.source.units))


def ended(command: Command) -> str:
    """What a build said that has succeeded."""
    code = command.process.wait(PATIENCE)
    assert code == 0, command.said[-3000:]
    return command.said


def the_wheel(folder: Path) -> Manifest:
    (wheel,) = load(folder)
    return wheel


def test_a_build_that_is_cut_off_everywhere_compiles_each_unit_once(builder, tmp_path):
    first = builder.build()
    builder.await_done(2)
    first.process.send_signal(signal.SIGKILL)  # the controller
    builder.await_done(3)
    wait_for(lambda: builder.compilers() != [], "a compiler")
    os.kill(builder.compilers()[0], signal.SIGKILL)
    wait_for(lambda: '"event": "again"' in builder.log(), "it runs again")
    builder.await_done(5)
    builder.crash()
    said = ended(builder.build())
    wheel = the_wheel(tmp_path / "wheels")
    assert wheel.file in said
    assert builder.compiled() == Counter(units())
    assert (wheel.version, wheel.archs) == ("1.0+cu131", ("9.0",))
    beside = tmp_path / "wheels" / f"{wheel.file}.provenance"
    provenance = json.loads(beside.read_text())
    assert {row["unit"] for row in provenance["units"]} == units()
    assert "nothing to do" in ended(builder.build())


@pytest.mark.full
def test_in_memory_in_which_a_plain_build_is_killed_ours_ends_at_the_first_try(builder):
    ended(builder.build())
    assert builder.compiled() == Counter(units())
    assert not [row for row in records.read(builder.tree / "units.jsonl") if row["killed"]]
    tree = f"{ROOT}/{builder.tree.name}"
    (home,) = builder.tree.glob("environment/lib/python3*/site-packages/nvidia/cu13")
    builder.mess(
        PLAIN.format(tree=tree, home=f"/{home.relative_to(builder.root)}", mib=MEMORY * 1024 - 100)
    )
    end = time.monotonic() + PATIENCE
    while builder.ask("systemctl is-active plain") == "active":
        assert time.monotonic() < end
        time.sleep(1.0)
    said = (builder.root / "root/plain.log").read_text(errors="replace")
    assert builder.ask("systemctl is-failed plain") == "failed", said[-2000:]
    assert "[code=137]" in said or "signal 9" in said, said[-2000:]
