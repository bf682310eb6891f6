"""The process behind a running host: boots it, boots it again after a reboot, serves its packages.

It outlives the command that started it. While `hold-reboot` exists in the host's folder, a host
that asked for a reboot stays down: a test delays or refuses the comeback with that.
"""

from __future__ import annotations

import functools
import http.server
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from provision.lab import cgroups, repository
from provision.lab.processes import signal_guest
from provision.lab.record import Record
from provision.lab.store import locked, poll

REBOOT = 133
"""nspawn's exit code when the guest asks for a reboot."""

CLEAN_STOP_SECONDS = 20.0


class StopRequestError(Exception):
    """The supervisor was asked to end."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the repository; its log goes to the console file with everything else."""

    protocol_version = "HTTP/1.1"
    timeout = 30


def serve(root: Path, address: str) -> None:
    """Serve the packages on a loopback address, in a thread that ends with the process."""
    handler = functools.partial(_Handler, directory=str(root))
    server = http.server.ThreadingHTTPServer((address, repository.PORT), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def boot_command(record: Record) -> list[str]:
    """One boot: uptime starts at zero, and nothing outlives its parent."""
    uptime = int(float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0]))
    return [
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--time", f"--boottime=-{uptime}", f"--monotonic=-{uptime}"),
        *("--fork", "--kill-child"),
        *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--machine={record.name}"),
        *(f"--directory={record.root}", f"--hostname={record.name}"),
        *("--kill-signal=SIGRTMIN+3", "--console=pipe", "/usr/local/sbin/lab-init"),
    ]


def power_off(boot: subprocess.Popen[bytes]) -> None:
    """Ask the guest to power off; kill it when it doesn't."""
    signal_guest(boot.pid, signal.SIGTERM)
    if not poll(CLEAN_STOP_SECONDS, lambda: boot.poll() is not None):
        boot.kill()
    boot.wait()


def boots(record: Record) -> int:
    """Boot until the guest powers off; returns nspawn's exit code."""
    hold = record.folder / "hold-reboot"
    while True:
        command = cgroups.prepare(record.name, record.memory, boot_command(record))
        _say("boot")
        boot = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            code = boot.wait()
        except StopRequestError:
            power_off(boot)
            raise
        _say(f"the guest ended with {code}")
        if code != REBOOT:
            return code
        poll(float("inf"), lambda: not hold.exists())


def _say(text: str) -> None:
    sys.stdout.write(f"[supervisor {time.time():.3f}] {text}\n")
    sys.stdout.flush()


def _stop(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise StopRequestError


def main(argv: list[str]) -> int:
    """Run for the life of the host `argv[1]`."""
    record = Record.find(argv[1])
    if record is None:
        return 2
    signal.signal(signal.SIGTERM, _stop)
    with locked(f"supervisor-{record.name}"):  # an orphaned one must be gone first
        return supervise(record)


def supervise(record: Record) -> int:
    """Serve and boot until the guest powers off, or until SIGTERM."""
    try:
        serve(record.folder / "repository", record.address)
        return boots(record)
    except StopRequestError:
        return 0
    finally:
        cgroups.remove(record.name)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
