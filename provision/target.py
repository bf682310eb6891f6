"""Inventory's host → what planning and talking to it need: its want and a transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision import baseline, stack, wheelhouse
from provision.errors import ProvisionError, UsageError
from provision.inventory import Host
from provision.stack import Repository, Stack
from provision.transport import Transport
from provision.transport.local import Local
from provision.want import Want
from provision.wheelhouse import Manifest

if TYPE_CHECKING:
    from provision.lab import LabSpec  # most hosts need none of the lab


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One host, ready to be asked."""

    host: Host
    want: Want
    transport: Transport

    def lost(self) -> ProvisionError | None:
        """Why this host will not come back by itself, which only of lab hosts is known."""
        if self.host.lab is None:
            return None
        from provision import lab

        there = lab.find(self.host.name)
        if there and there.running:
            return None
        name = self.host.name
        return ProvisionError(
            f"{name}: the lab host is gone: what runs it was stopped or killed",
            hint=f"invoke provision --host {name} boots it again as it was, and goes on",
        )


def target(
    host: Host,
    *,
    start: Callable[[str], None] | None = None,
    accept_new: bool = False,
    compared: bool = True,
    wheels: tuple[Manifest, ...] | None = None,
) -> Target:
    """Make a host ready, and begin to log in: whoever asked has more to import meanwhile.

    A lab host that is down is started when `start`, told of it, is given. What is `compared` with
    its baseline needs one that can be read; nothing else does. `wheels` are those of the
    wheelhouse, where somebody has looked already.

    Raises UsageError for a wrong stack or SSH configuration, or a wheelhouse that can't be read,
    ProvisionError for a lab host that is down.
    """
    if host.lab:
        host = _lab(host, start)
    want = wanted(host, compared=compared, wheels=wheels)
    transport = _transport(host, accept_new=accept_new)
    transport.begin()
    return Target(host=host, want=want, transport=transport)


def wanted(
    host: Host, *, compared: bool = True, wheels: tuple[Manifest, ...] | None = None
) -> Want:
    """What the files here say that a host should be; nobody is asked. For the rest see `target`.

    Raises UsageError for a stack, a wheel's manifest or a baseline that can't be read.
    """
    try:
        its = stack.load(host.stack)
    except UsageError as error:
        raise UsageError(f"{host.where}: {host.name}: {error.what}", hint=error.hint) from error
    return Want(
        stack=its,
        uv=stack.load_uv(),
        gpus=host.gpus,
        wheelhouse=_built(its) if wheels is None else wheels,
        repository=host.repository,
        site=host.site,
        baseline=baseline.load(host.name) if compared else None,
    )


def _built(stack: Stack) -> tuple[Manifest, ...]:
    """What may join a stack's environments; damage to the wheelhouse is nothing to other stacks."""
    takes = any(environment.wheels for environment in stack.environment.values())
    return wheelhouse.load() if takes else ()


def _transport(host: Host, *, accept_new: bool) -> Transport:
    if host.connection == "local":
        return Local(host.name)
    from provision.transport.address import resolve
    from provision.transport.ssh import Ssh  # Fabric and paramiko are for SSH alone
    from provision.transport.trust import Trust

    trust = Trust(fingerprint=host.host_key, accept_new=accept_new)
    return Ssh(host, resolve(host), trust)


def lab_spec(host: Host) -> LabSpec:
    """What the lab must make of a host. Raises UsageError when it is no lab host."""
    from provision import lab

    if host.lab is None:
        raise UsageError(
            f"{host.where}: {host.name} is no lab host", hint="a lab host has a `lab` entry"
        )
    return lab.LabSpec(
        name=host.name,
        suite=host.lab.suite,
        flavour=host.lab.flavour,
        hardware=host.lab.hardware,
        layer=host.lab.layer,
        memory=host.lab.memory_gib * 2**30 if host.lab.memory_gib else None,
    )


def _lab(host: Host, start: Callable[[str], None] | None) -> Host:
    from provision import lab

    there = lab.up(lab_spec(host), say=start) if start else lab.find(host.name)
    if there is None or not there.running:
        raise ProvisionError(
            f"{host.name}: the lab host is not running", hint=f"invoke lab.up --host {host.name}"
        )
    repository = Repository(
        url=there.repository,
        fingerprint=there.key_fingerprint,
        keyring_sha256=there.keyring_sha256,
    )
    return host.model_copy(
        update={
            "address": host.name,
            "ssh_config": there.ssh_config,
            "repository": repository,
        }
    )
