"""What is written down about a host: one JSON file, `hosts/NAME/host.json`."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from provision.lab import flavours
from provision.lab.store import boot_id, lab_dir, private_dir, read_json, start_ticks, write_whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A host as it was set up, and the supervisor that ran it last (0: never); memory in bytes.

    `base` is what lies below its own files, uppermost first and joined with colons: layers, and the
    suite's root file system. `layer` is the label of the uppermost layer.
    """

    name: str
    suite: str
    hardware: str
    memory: int | None
    base: str
    port: int
    flavour: str = "debian"
    layer: str | None = None
    key_fingerprint: str = ""
    keyring_sha256: str = ""
    host_key: str = ""
    supervisor: int = 0
    supervisor_started: int = 0
    machine_boot: str = ""

    @property
    def folder(self) -> Path:
        """Everything about this host."""
        return folder(self.name)

    @property
    def distribution(self) -> str:
        """NVIDIA's name for what the host says it is."""
        return flavours.distribution(self.flavour, self.suite)

    @property
    def address(self) -> str:
        """Where the host's packages are served: a loopback address of its own, from its port."""
        return f"127.77.{self.port >> 8}.{self.port & 255}"

    @property
    def root(self) -> Path:
        """Where the host's file system is mounted while it runs."""
        return self.folder / "root"

    @property
    def running(self) -> bool:
        """Whether the recorded supervisor lives; a reused process id doesn't count."""
        return (
            self.machine_boot == boot_id()
            and start_ticks(self.supervisor) == self.supervisor_started
        )

    def save(self) -> None:
        """Write the record, whole."""
        write_whole(self.folder / "host.json", json.dumps(dataclasses.asdict(self), indent=1))

    @classmethod
    def find(cls, name: str) -> Record | None:
        """The record of a host, None when there is no such host."""
        data = read_json(folder(name) / "host.json")
        if data is None:
            return None
        known = {field.name for field in dataclasses.fields(cls)}  # another version wrote others
        return cls(**{key: value for key, value in data.items() if key in known})

    @classmethod
    def every(cls) -> list[Record]:
        """The records of all hosts, by name."""
        found = (cls.find(path.name) for path in sorted(hosts().iterdir()))
        return [record for record in found if record is not None]


def hosts() -> Path:
    """The folder with one folder per host."""
    return private_dir(lab_dir() / "hosts")


def folder(name: str) -> Path:
    """The folder of one host."""
    return hosts() / name
