"""`pytest tests/infra` where what it is given is wrong: one message for all its tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from provision import inventory
from tests.infra import conftest

ROOT = Path(__file__).parents[2]
TEXT = "default: h\nhosts:\n  h: {connection: local, stack: lab}\n"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with an inventory, the one in use."""
    (tmp_path / "inventory.yaml").write_text(TEXT)
    monkeypatch.setenv(inventory.VARIABLE, str(tmp_path / "inventory.yaml"))
    return tmp_path


def started(*, host=(), group=()):
    """What the collection of `tests/infra` begins with, under these options."""
    options = {"host": list(host), "group": list(group)}
    config = SimpleNamespace(getoption=options.__getitem__, stash=pytest.Stash())
    conftest.pytest_collectstart(SimpleNamespace(config=config))
    return config.stash[conftest.CHOSEN]


def _written(name, text):
    def write(folder):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    return write


CARD = {
    "slot": "0000:01:00.0",
    "uuid": "GPU-1",
    "name": "NVIDIA L40S",
    "power_limit": 350,
    "link_gen": 4,
    "link_width": "wide",
}
WIDE = json.dumps({"gpus": [CARD], "links": None, "figures": None})
WRONG = {
    "an unknown host": (None, {"host": ["nosuch"]}, r"there is no host 'nosuch'\nhint: hosts"),
    "an unknown group": (None, {"group": ["all"]}, r"there is no group 'all'\nhint: groups"),
    "no inventory": (
        lambda folder: (folder / "inventory.yaml").unlink(),
        {},
        r"inventory\.yaml: can't be read: .*\nhint: FIRSTLIGHT_INVENTORY",
    ),
    "an inventory that is none": (
        _written("inventory.yaml", "default: h\nhosts: none\n"),
        {},
        r"inventory\.yaml:2: hosts: expected a mapping of host names$",
    ),
    "an unknown stack": (
        _written("inventory.yaml", TEXT.replace("lab", "nosuch")),
        {},
        r"inventory\.yaml:3: h: there is no stack 'nosuch' .*\nhint: stacks there",
    ),
    "a baseline that is none": (
        _written("baselines/h.json", WIDE),
        {},
        r"h\.json: gpus\.0\.link_width: .*\nhint: record it anew",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_before_anything_is_collected(site, name):
    spoil, options, says = WRONG[name]
    if spoil:
        spoil(site)
    with pytest.raises(pytest.UsageError, match=says):
        started(**options)


def test_hosts_are_those_asked_for(site):
    assert [host.name for host in started()] == ["h"]
    assert [host.name for host in started(host=["h", "h"])] == ["h"]


def test_pytest_ends_with_that_message_alone(site):
    """As a whole once: which of pytest's hooks may say so is not ours to decide."""
    _written("baselines/h.json", WIDE)(site)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/infra", "-q"],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    first, hint = done.stderr.strip().splitlines()
    assert first.startswith(f"ERROR: {site / 'baselines/h.json'}: gpus.0.link_width: ")
    assert hint.startswith("hint: ")
    assert "Error" not in done.stdout
