"""Lab hosts: real Debian, systemd, sshd and apt on this machine; only the hardware is simulated."""

from provision.lab.access import sshd_sessions
from provision.lab.host import LabHost, LabSpec, down, find, status, up
from provision.lab.requirements import install_requirements, missing_requirements, unavailable
from provision.lab.store import LabError

__all__ = [
    "LabError",
    "LabHost",
    "LabSpec",
    "down",
    "find",
    "install_requirements",
    "missing_requirements",
    "sshd_sessions",
    "status",
    "unavailable",
    "up",
]
