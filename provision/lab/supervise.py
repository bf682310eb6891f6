"""The process behind a running host: boots it, boots it again after a reboot, serves its packages.

It outlives the command that started it. While `hold-reboot` exists in the host's folder, a host
that asked for a reboot stays down: a test delays or refuses the comeback with that.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from provision.lab import cgroups
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


def serve(root: Path, port: int) -> None:
    """Serve the repository on loopback, in a thread that ends with the process."""
    handler = functools.partial(_Handler, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def boot_command(record: Record) -> list[str]:
    """One boot: uptime starts at zero, and nothing outlives its parent."""
    uptime = int(float(Path("/proc/uptime").read_text().split()[0]))
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


def signal_guest(above: int, number: signal.Signals) -> bool:
    """Signal the nspawn below a process: TERM powers the guest off, KILL pulls its plug."""
    for pid in _descendants(above):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd-nspawn":
                os.kill(pid, number)
                return True
    return False


def _descendants(pid: int) -> list[int]:
    """All processes below one, parents first."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found[1:]


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
        serve(record.folder / "repository", record.repository_port)
        return boots(record)
    except StopRequestError:
        return 0
    finally:
        cgroups.remove(record.name)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
