"""What is asked of a lab host, and what is told of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from provision.lab import flavours, repository
from provision.lab.flavours import Flavour, Suite
from provision.lab.record import Record
from provision.lab.requirements import unavailable
from provision.lab.store import LabError

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class LabSpec:
    """What a lab host should be.

    `memory` is a limit in bytes; `suite` None is the flavour's own; on top of `layer` the host
    starts as the one that was frozen under this label.
    """

    name: str
    suite: Suite | None = None
    hardware: str = "rtxpro6000-8x"
    memory: int | None = None
    flavour: Flavour = "debian"
    layer: str | None = None

    @property
    def base_suite(self) -> Suite:
        """The Debian suite below."""
        return self.suite or flavours.default_suite(self.flavour)

    def check(self) -> None:
        """Raise LabError where no such host can stand."""
        reason = unavailable()
        if reason:
            raise LabError(f"no lab host can stand here: {reason}")
        check_name(self.name)
        if self.flavour not in ("debian", *flavours.UBUNTU):
            known = ", ".join(("debian", *flavours.UBUNTU))
            raise LabError(f"no lab host of flavour {self.flavour!r}", hint=f"there are: {known}")
        if self.base_suite not in flavours.DISTRIBUTIONS:
            known = ", ".join(flavours.DISTRIBUTIONS)
            raise LabError(f"no lab host of suite {self.suite!r}", hint=f"there are: {known}")

    def check_same(self, record: Record) -> None:
        """Raise LabError where a host stands with other settings."""
        for field, wanted in {
            "suite": self.base_suite,
            "hardware": self.hardware,
            "memory": self.memory,
            "flavour": self.flavour,
            "layer": self.layer,
        }.items():
            had = getattr(record, field)
            if had != wanted:
                raise LabError(
                    f"lab host {self.name} stands with {field} {had}, not {wanted}",
                    hint="start it fresh, or keep its settings",
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class LabHost:
    """A lab host: `ssh -F ssh_config name` enters it, as root or with `-l` as another user.

    `repository` and `archive` are URLs that only the host itself can resolve: NVIDIA's repository
    and the distribution's own archive, both simulated.
    """

    name: str
    suite: str
    hardware: str
    flavour: str
    layer: str | None
    running: bool
    ssh_config: Path
    port: int
    repository: str
    archive: str
    key_fingerprint: str
    keyring_sha256: str
    root: Path
    console: Path


def check_name(name: str) -> None:
    """Raise LabError for a name that neither a host nor a layer can have."""
    if not NAME.fullmatch(name):
        raise LabError(f"{name!r} can't name a lab host", hint="use letters a-z, digits and dashes")


def told(record: Record) -> LabHost:
    """What others learn of a host."""
    return LabHost(
        name=record.name,
        suite=record.suite,
        hardware=record.hardware,
        flavour=record.flavour,
        layer=record.layer,
        running=record.running,
        ssh_config=record.folder / "ssh_config",
        port=record.port,
        repository=repository.vendor_url(record.distribution),
        archive=repository.archive_url(record.distribution),
        key_fingerprint=record.key_fingerprint,
        keyring_sha256=record.keyring_sha256,
        root=record.root,
        console=record.folder / "console",
    )
