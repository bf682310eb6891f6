"""Lab hosts for the tests: their inventory entries, and a hand that makes a mess on them."""

from __future__ import annotations

import os
import subprocess
import time

from provision import inventory
from provision.target import Target

MODEL = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def own(name: str) -> str:
    """A name for this test process alone: with pytest-xdist several run side by side."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    return f"{name}-{worker}" if worker else name


def host_entry(name: str, **lab_settings: str) -> inventory.Host:
    settings = ", ".join(f"{key}: {value}" for key, value in lab_settings.items())
    text = (
        f"default: {name}\nhosts:\n  {name}:\n    lab: {{{settings}}}\n    stack: lab\n"
        f"    gpus: {{count: 8, model: {MODEL}}}\n"
    )
    return inventory.parse(text, "test.yaml").select()[0]


def on_host(there: Target, script: str) -> None:
    """Make a mess, as root, by hand."""
    argv = ["ssh", "-F", str(there.host.ssh_config), there.host.name, "sh -ex"]
    before = boot_id(there)
    env = "export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1\n"
    said = subprocess.run(
        argv, input=env + script, capture_output=True, text=True, check=False, timeout=120
    )
    if "reboot" not in script:
        assert said.returncode == 0, said.stderr[-2000:]
        return
    end = time.monotonic() + 60
    while boot_id(there) in ("", before):
        assert time.monotonic() < end, "it does not come back"
        time.sleep(0.1)


def boot_id(there: Target) -> str:
    argv = ["ssh", "-F", str(there.host.ssh_config), there.host.name]
    ask = [*argv, "cat /proc/sys/kernel/random/boot_id"]
    return subprocess.run(ask, capture_output=True, text=True, check=False).stdout
