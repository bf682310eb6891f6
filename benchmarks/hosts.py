"""The lab hosts of a benchmark: freshly made, provisioned, described, and always taken down."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.expected import Expected, expected
from provision import engine, inventory, lab, resources, wire
from provision.target import Target, lab_spec, target
from provision.transport import Cost, Result
from provision.transport.address import Address
from provision.transport.ssh import Ssh
from provision.want import Want

PREFIX = "bench-"
SUITE = "bookworm"
GPUS = {"count": 8, "model": "NVIDIA RTX PRO 6000 Blackwell Server Edition"}
SIDE_BY_SIDE = 2
"""Hosts that are provisioned at once."""
DEADLINE = 30.0
"""Seconds for one command on a host that has just come up."""
VERBOSE = "printf 'LogLevel VERBOSE\\n' >/etc/ssh/sshd_config.d/benchmark.conf"
"""sshd then logs every command that it starts, which is how they are counted."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """A lab host that is right, and what its sides need to know of it."""

    name: str
    port: int
    root: Path
    address: Address
    want: Want
    expected: Expected
    probe: bytes
    """What our probe sends to it."""

    def commands(self) -> int:
        """How many commands and subsystems its sshd has started."""
        journal = ("journalctl", "--directory=/var/log/journal", "--quiet", "--output=cat")
        said = subprocess.run(
            ("chroot", self.root, *journal, "--grep=^Starting session: "),
            capture_output=True,
            text=True,
            check=False,  # 1 when there is none yet
        )
        return len(said.stdout.splitlines())


@contextmanager
def benches(count: int, say: Say) -> Iterator[list[Bench]]:
    """Make hosts `bench-1` … and take them down at the end, whatever that is."""
    names = [f"{PREFIX}{number}" for number in range(1, count + 1)]
    try:
        lab.install_requirements(say)
        yield _make_all(names, say)
    finally:
        _take_down(names, say)


def _take_down(names: Sequence[str], say: Say) -> None:
    """All of them, whatever happens to one, and however often Ctrl-C is pressed."""
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ExitStack() as stack:
            for name in names:
                stack.callback(lab.down, name, discard=True)
    finally:
        signal.signal(signal.SIGINT, interrupt)
    say(f"{len(names)} lab host(s) taken down")


def _make_all(names: Sequence[str], say: Say) -> list[Bench]:
    pool = ThreadPoolExecutor(SIDE_BY_SIDE)
    try:
        return list(pool.map(lambda name: _make(name, say), names))
    finally:
        pool.shutdown(cancel_futures=True)


def _make(name: str, say: Say) -> Bench:
    text = inventory_text({name: {"lab": {"suite": SUITE}, "stack": "lab", "gpus": GPUS}})
    (host,) = inventory.parse(text, "benchmark").select()
    up = lab.up(lab_spec(host), fresh=True, say=say)
    ready = target(host)
    assert isinstance(ready.transport, Ssh)  # noqa: S101 - a lab host's is
    try:
        seen = engine.provision(ready, lambda _: None)
        made = Bench(
            name=name,
            port=up.port,
            root=up.root,
            address=ready.transport.address,
            want=ready.want,
            expected=expected(ready, seen),
            probe=_probe(ready),
        )
        for argv in (("sh", "-c", VERBOSE), ("systemctl", "reload", "ssh")):
            ready.transport.run(argv, b"", deadline=DEADLINE)
    finally:
        ready.transport.close()
    say(f"{name}: provisioned")
    return made


def _probe(ready: Target) -> bytes:
    heard = _Listener(ready.host.name)
    wire.probe(heard, resources.query(ready.want))
    return heard.stdin


class _Listener:
    """A transport that sends nothing and keeps what was to be sent."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.cost = Cost()
        self.stdin = b""

    def begin(self) -> None:
        pass

    def run(
        self,
        argv: Sequence[str],  # noqa: ARG002
        stdin: bytes,
        *,
        deadline: float,  # noqa: ARG002
        root: bool = False,  # noqa: ARG002
    ) -> Result:
        self.stdin = stdin
        return Result(exit=0, out="{}", err="")

    def follow(self, argv: Sequence[str], stdin: bytes, *, silence: float) -> Iterator[str]:
        raise NotImplementedError

    def close(self) -> None:
        pass


def inventory_text(hosts: Mapping[str, Mapping[str, Any]]) -> str:
    """Our inventory of hosts; JSON is YAML."""
    return json.dumps({"default": next(iter(hosts)), "hosts": dict(hosts)}, indent=2)


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the files of a run lie that lead every side to the hosts, through the relays."""

    path: Path

    @property
    def ssh_config(self) -> Path:
        """OpenSSH's configuration: each host by its name."""
        return self.path / "ssh_config"

    @property
    def inventory(self) -> Path:
        """Our inventory."""
        return self.path / "inventory.yaml"

    def described(self, count: int) -> Path:
        """The first hosts with everything that is expected of them, as Ansible's inventory."""
        return self.path / f"hosts-{count}.json"

    def write(self, hosts: Sequence[Bench], ports: Sequence[int], counts: Sequence[int]) -> None:
        """Write all of them; `ports` are the relays'."""
        known = [_known(host, port) for host, port in zip(hosts, ports, strict=True)]
        (self.path / "known_hosts").write_text("".join(known), encoding="utf-8")
        blocks = [self._block(host, port) for host, port in zip(hosts, ports, strict=True)]
        self.ssh_config.write_text("\n".join(blocks), encoding="utf-8")
        entries = {host.name: self._entry(host) for host in hosts}
        self.inventory.write_text(inventory_text(entries), encoding="utf-8")
        for count in counts:
            variables = {host.name: self._variables(host) for host in hosts[:count]}
            self.described(count).write_text(
                json.dumps({"all": {"hosts": variables}}), encoding="utf-8"
            )

    def _block(self, host: Bench, port: int) -> str:
        options = {
            "HostName": "127.0.0.1",
            "Port": port,
            "User": "root",
            "IdentityFile": host.address.identities[0],
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.path / "known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
        }
        lines = "".join(f"    {name} {value}\n" for name, value in options.items())
        return f"Host {host.name}\n{lines}"

    def _entry(self, host: Bench) -> dict[str, Any]:
        repository = host.want.repository
        assert repository is not None  # noqa: S101 - a lab host has its own
        return {
            "ssh_config": str(self.ssh_config),
            "address": host.name,
            "stack": "lab",
            "gpus": GPUS,
            "repository": {
                "url": repository.url,
                "fingerprint": repository.fingerprint,
                "keyring_sha256": repository.keyring_sha256,
            },
        }

    def _variables(self, host: Bench) -> dict[str, Any]:
        return {
            **host.expected,
            "ansible_ssh_common_args": f"-F {self.ssh_config}",
            "ssh_config_file": str(self.ssh_config),
            "ssh_known_hosts_file": str(self.path / "known_hosts"),
            "ssh_strict_host_key_checking": "yes",
        }


def _known(host: Bench, port: int) -> str:
    (known, *_) = host.address.known_hosts
    return known.read_text(encoding="utf-8").replace(f":{host.port} ", f":{port} ")
