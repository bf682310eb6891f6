"""The matrix: what is to be changed on a host, and what goes wrong in the midst of it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.lab.command import Command
from tests.lab.test_dirty import PARTS, WITHOUT_PINS
from tests.lab.trial import Trial

KERNEL = "6.12.90-lab-amd64"
OLDER = "580.159.04"
MODULES = ("nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia")
HELD = ("libcuda1", "nvidia-open")

EVERYWHERE = f"""
    apt-mark hold {" ".join(HELD)}
    mkdir -p /etc/systemd/system/nvidia-persistenced.service.d
    printf '[Service]\\nExecStartPre=/bin/sleep 0.5\\n' \\
        > /etc/systemd/system/nvidia-persistenced.service.d/slow.conf
    echo pre-invoke=/bin/sleep 0.2 > /etc/dpkg/dpkg.cfg.d/slow
    echo 0.5 > /etc/lab/dkms-slow
"""
"""Holds that must outlive everything, and a moment inside the changes in which they can be hit:
for the daemon's start, for a module's build, and before each time that dpkg works."""

OLDER_LOADED = f"""
    systemctl stop nvidia-persistenced
    modprobe -r {" ".join(MODULES)}
    cd /lib/modules/{KERNEL}/updates/dkms
    cp nvidia.ko /root/nvidia.ko
    sed -i 's/^version=.*/version={OLDER}/' nvidia.ko
    modprobe -a {" ".join(reversed(MODULES))}
    mv /root/nvidia.ko nvidia.ko
    systemctl start nvidia-persistenced
"""
"""The module in the kernel is an older one than that on disk, as after an upgrade by hand."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One change that a finished host needs again."""

    change: str
    """How its id begins."""
    moment: str = ""
    """What its commands have said when it is in the midst; '': it takes no time at all."""
    disk: str = ""
    """How a finished host comes to need it."""
    live: str = ""
    """The same, but of what no boot survives."""
    before: str = ""
    """The kind that is due as well and comes earlier, where one is to be cancelled before this."""
    after: str = ""
    """The kind that is due as well and comes later, where this one is cancelled."""
    restarts: int = 0
    alone: bool = False
    """Nothing can be due beside it: who cancels comes too late."""


KINDS = {
    "source": Kind(
        change="apt_source:",
        moment="$ dpkg ",
        disk="rm /etc/apt/sources.list.d/cuda-*.list",
        after="pin",
    ),
    "pin": Kind(
        change="apt_pins:",
        disk="sed -i s/1001/100/ /etc/apt/preferences.d/firstlight.pref",
        before="source",
    ),
    "headers": Kind(
        change="headers:",
        moment="Setting up linux-headers",
        disk=f"apt-get -qq -y remove linux-headers-{KERNEL}",
        after="toolkit",
    ),
    "driver": Kind(
        change="driver:",
        moment="Setting up nvidia-kernel-open-dkms",
        disk=f"""
            {WITHOUT_PINS} --allow-change-held-packages install \\
                {" ".join(f"{part}={OLDER}-1" for part in PARTS)}
            apt-mark hold {" ".join(HELD)}
        """,
        after="toolkit",
    ),
    "toolkit": Kind(
        change="toolkits:12.8",
        moment="Unpacking cuda-",
        disk="apt-get -qq -y remove cuda-toolkit-12-8",
        before="headers",
    ),
    "environment": Kind(
        change="environment:",
        moment=" pip install ",
        disk="rm /opt/firstlight/environments/main/current/bin/activate",
        before="unit",
    ),
    "unit": Kind(
        change="persistence:",
        moment="systemctl enable --now",
        disk="systemctl disable --now nvidia-persistenced",
        after="environment",
    ),
    "reboot": Kind(
        change="reboot:",
        moment="systemctl stop -- trainer.service",
        live=OLDER_LOADED
        + """
            systemd-run --quiet --unit=trainer --property=StandardInput=file:/dev/nvidia0 \\
                --property=ExecStop='/bin/sleep 1' sleep infinity
        """,
        restarts=1,
    ),
    "reload": Kind(change="reload:", moment="systemctl start", live=OLDER_LOADED, alone=True),
}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that goes wrong, and how the command that it hits may end."""

    strike: Callable[[Trial, Command], None]
    codes: tuple[int, ...]
    boots: int = 0
    torn: bool = False
    """A run may be left without its end."""


def _cut(trial: Trial, command: Command) -> None:
    trial.cable.cut(2.0)


def _kill_controller(trial: Trial, command: Command) -> None:
    command.process.kill()


def _kill_run(trial: Trial, command: Command) -> None:
    """All its processes at once, as where memory runs out."""
    trial.signal_run(signal.SIGKILL)


def _crash(trial: Trial, command: Command) -> None:
    trial.crash()


def _cancel(trial: Trial, command: Command) -> None:
    code, said = trial.run("cancel")
    assert (code, "stops before its next change" in said) == (0, True), said


FAULTS = {
    "connection cut": Fault(strike=_cut, codes=(0,)),
    "controller killed": Fault(strike=_kill_controller, codes=(-9,)),
    "run killed": Fault(strike=_kill_run, codes=(1,), torn=True),
    "host crashed": Fault(strike=_crash, codes=(1,), boots=1, torn=True),
    "cancelled": Fault(strike=_cancel, codes=(130,)),
}
