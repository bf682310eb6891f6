"""Lab hosts: made, shut down, shown, logged in to."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Sequence
from typing import ParamSpec

from provision.errors import DONE, FAILED, ProvisionError
from provision.fleet import each
from provision.inventory import Host
from provision.report import Report
from provision.target import lab_spec

Names = Sequence[str]
P = ParamSpec("P")


def _told(command: Callable[P, int]) -> Callable[P, int]:
    """What fails outside the work on one host ends with its message and code, too."""

    @functools.wraps(command)
    def ended(*args: P.args, **options: P.kwargs) -> int:
        try:
            return command(*args, **options)
        except ProvisionError as error:
            Report().error(error)
            return error.exit_code

    return ended


def up(hosts: Names, groups: Names, *, fresh: bool) -> int:
    """Make and boot lab hosts."""
    from provision import lab

    report = Report()

    def do(host: Host) -> int:
        lab.up(lab_spec(host), fresh=fresh, say=functools.partial(report.say, host.name))
        report.say(host.name, f"up: invoke lab.ssh --host {host.name}", "green")
        return DONE

    return each(report, hosts, groups, do)


@_told
def down(hosts: Names, groups: Names, *, discard: bool) -> int:
    """Shut lab hosts down, also those that no inventory names any more."""
    from provision import lab

    report = Report()
    there = {host.name for host in lab.status()}
    strays = [name for name in hosts if name in there]
    for name in strays:
        lab.down(name, discard=discard)
        report.say(name, "down")

    def do(host: Host) -> int:
        was = lab.down(lab_spec(host).name, discard=discard)
        report.say(host.name, "down" if was else "was not up")
        return DONE

    rest = [name for name in hosts if name not in there]
    return DONE if strays and not rest and not groups else each(report, rest, groups, do)


@_told
def status(*, json: bool) -> int:
    """Show the lab hosts."""
    from provision import lab

    report = Report(json=json)
    there = lab.status()
    for host in there:
        state = "running" if host.running else "down"
        report.say(host.name, f"{state}: {host.suite}, {host.hardware} (simulated)")
    if not there:
        report.say("lab", "no host was made yet: invoke lab.up")
    if json:
        report.data(
            [
                {
                    "name": host.name,
                    "running": host.running,
                    "suite": host.suite,
                    "hardware": host.hardware,
                    "port": host.port,
                }
                for host in there
            ]
        )
    return DONE


@_told
def ssh(name: str, command: str) -> int:
    """Log in to a lab host, or run one command there; its exit code."""
    from provision import lab

    there = lab.find(name)
    if there is None or not there.running:
        report = Report()
        report.error(ProvisionError(f"{name}: the lab host is not running", hint="invoke lab.up"))
        return FAILED
    words = ["ssh", "-F", str(there.ssh_config), "--", name]
    return subprocess.run([*words, command] if command else words, check=False).returncode
