"""What a lab host does that goes wrong on real ones: in use, dead at once, another kernel."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from provision import lab
from provision.lab.record import Record
from tests.lab.command import wait_for
from tests.lab.test_lab_host import Guest

NAME = "x-lab-faults"
MODULES = "nvidia_drm nvidia_modeset nvidia_uvm nvidia"
KERNEL, NEWER = "6.12.90-lab-amd64", "6.12.95-lab-amd64"


@pytest.fixture(scope="module")
def guest(finished: str) -> Iterator[Guest]:
    spec = lab.LabSpec(name=NAME, layer=finished)
    try:
        yield Guest(lab.up(spec, fresh=True, say=lambda _: None))
    finally:
        lab.down(NAME, discard=True)


def test_a_module_whose_device_is_open_stays(guest: Guest) -> None:
    guest.out("systemctl stop nvidia-persistenced")
    guest.out("systemd-run --quiet --unit=user -p StandardInput=file:/dev/nvidia3 sleep infinity")
    refused = guest.run(f"modprobe -r {MODULES}")
    assert (refused.returncode, refused.stderr) == (
        1,
        "modprobe: FATAL: Module nvidia is in use.\n",
    )
    assert guest.run("rmmod nvidia").stderr == "rmmod: ERROR: Module nvidia is in use\n"
    assert "nvidia_uvm" not in guest.out("lsmod")


def test_modprobe_takes_several_and_what_they_alone_needed(guest: Guest) -> None:
    guest.out(f"systemctl stop user; modprobe -r {MODULES}; modprobe -a nvidia nvidia_uvm")
    assert "nvidia_uvm" in guest.out("lsmod")
    guest.out(f"modprobe -r {MODULES}")
    assert "nvidia" not in guest.out("lsmod")
    guest.out("modprobe nvidia_uvm; modprobe -r nvidia_uvm")
    assert "nvidia" not in guest.out("lsmod")


def test_a_crash_kills_all_at_once_and_keeps_what_was_written(guest: Guest) -> None:
    guest.out("systemd-run --quiet -p ExecStop='touch /root/told' sleep infinity; touch /root/kept")
    before = guest.boot_id()
    lab.crash(NAME)
    assert [host.running for host in lab.status() if host.name == NAME] == [False]
    lab.up(lab.LabSpec(name=NAME, layer=guest.host.layer), say=lambda _: None)
    assert guest.boot_id() not in ("", before)
    assert guest.out("ls /root") == "kept"


@pytest.mark.parametrize(
    "down", [False, True], ids=["its supervisor was killed", "it was shut down"]
)
def test_a_host_that_nothing_runs_is_booted_again_and_whoever_asked_is_told(
    guest: Guest, down: bool
) -> None:
    guest.out("touch /root/before")
    before = guest.boot_id()
    record = Record.find(NAME)
    assert record is not None
    if down:
        lab.down(NAME)
    else:
        os.kill(record.supervisor, signal.SIGKILL)
        wait_for(lambda: not record.running, "the supervisor's end")
    said: list[str] = []
    lab.up(lab.LabSpec(name=NAME, layer=guest.host.layer), say=said.append)
    assert any("what ran it was killed" in line for line in said) is not down
    assert guest.boot_id() not in ("", before)
    assert "before" in guest.out("ls /root")


def test_what_was_chosen_in_the_boot_menu_counts_once(guest: Guest) -> None:
    guest.out(f"apt-get -qq -y install linux-image-{NEWER}; echo {KERNEL} > /etc/lab/boot-kernel")
    for kernel in (KERNEL, NEWER):
        guest.reboot()
        assert guest.out("cat /proc/sys/kernel/osrelease") == kernel
