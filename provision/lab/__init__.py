"""Lab hosts: real Debian, systemd, sshd and apt on this machine; only the hardware is simulated."""

from provision.lab.adjust import add_archive, configure_sshd, rebuild, rekey, sshd_sessions
from provision.lab.host import crash, discard_layer, down, find, freeze, status, up
from provision.lab.requirements import install_requirements, missing_requirements, unavailable
from provision.lab.spec import LabHost, LabSpec
from provision.lab.store import LabError
from provision.lab.users import SUDO_PASSWORD

__all__ = [
    "SUDO_PASSWORD",
    "LabError",
    "LabHost",
    "LabSpec",
    "add_archive",
    "configure_sshd",
    "crash",
    "discard_layer",
    "down",
    "find",
    "freeze",
    "install_requirements",
    "missing_requirements",
    "rebuild",
    "rekey",
    "sshd_sessions",
    "status",
    "unavailable",
    "up",
]
