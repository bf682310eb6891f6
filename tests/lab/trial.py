"""A lab host on which something goes wrong while the commands run that people run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from provision import lab
from provision.target import Target, lab_spec, target
from tests.lab.command import Command, wait_for
from tests.lab.hosts import MODEL, host_entry, own
from tests.lab.proxy import Cable

NAME = own("x-fault")
"""Of the host: there is one at a time."""
JOURNAL = "var/log/firstlight/journal.jsonl"


class Trial:
    """A fresh host on a layer, behind a cable. What happens on it is read from outside.

    To the commands it is a user's own host: an alias in an OpenSSH client configuration.
    """

    def __init__(self, name: str, layer: str, folder: Path, **lab_settings: str) -> None:
        self.entry = host_entry(name, layer=layer, **lab_settings)
        self.there = lab.up(lab_spec(self.entry), fresh=True, say=lambda _: None)
        self.cable = Cable(self.there.port)
        self.folder = folder
        self._commands = 0
        self._old = self._size()
        self._boots = self._booted()
        self._write_inventory()

    def __enter__(self) -> Self:
        self.cable.__enter__()
        return self

    def __exit__(self, *of_error: object) -> None:
        self.cable.__exit__(*of_error)
        lab.down(self.entry.name, discard=True)

    def _write_inventory(self) -> None:
        config = self.there.ssh_config.read_text()
        config = config.replace(f"Port {self.there.port}", f"Port {self.cable.port}")
        config += f"    HostKeyAlias [127.0.0.1]:{self.there.port}\n"
        (self.folder / "ssh_config").write_text(config)
        (self.folder / "inventory.yaml").write_text(
            f"default: {self.entry.name}\nhosts:\n  {self.entry.name}:\n"
            f"    ssh_config: {self.folder}/ssh_config\n    stack: {self.entry.stack}\n"
            f"    gpus: {{count: 8, model: {MODEL}}}\n"
            f"    repository: {{url: '{self.there.repository}', "
            f"fingerprint: {self.there.key_fingerprint}}}\n"
        )

    @property
    def root(self) -> Path:
        """The host's file system as it is at this moment."""
        return self.there.root

    def target(self) -> Target:
        """The same host for the loop in this process, not through the cable."""
        return target(self.entry)

    def mess(self, script: str) -> None:
        """Do something on the host, as root, by hand."""
        done = self._ssh("sh -ex", f"export DEBIAN_FRONTEND=noninteractive\n{script}")
        assert done.returncode == 0, done.stderr[-2000:]

    def ask(self, command: str) -> str:
        """What a command on the host says."""
        return self._ssh(command).stdout.strip()

    def _ssh(self, command: str, script: str = "") -> subprocess.CompletedProcess[str]:
        argv = ["ssh", "-F", str(self.there.ssh_config), self.entry.name, command]
        return subprocess.run(
            argv, input=script, capture_output=True, text=True, check=False, timeout=60
        )

    def start(self, *words: str, terminal: int = subprocess.DEVNULL) -> Command:
        """Start a task on the host: `invoke WORDS`; one that may ask gets a terminal."""
        self._commands += 1
        said = self.folder / f"said-{self._commands}"
        return Command(self.folder / "inventory.yaml", words, said, terminal)

    def run(self, *words: str) -> tuple[int, str]:
        """Exit code and output of a task."""
        return self.start(*words).end()

    def crash(self) -> None:
        """Every process of the host dies at once; it boots again."""
        lab.crash(self.entry.name)
        lab.up(lab_spec(self.entry), say=lambda _: None)

    def boots(self) -> int:
        """How often the host has booted since the trial began."""
        return self._booted() - self._boots

    def _booted(self) -> int:
        return self.there.console.read_text(errors="replace").count("] boot\n")

    def _size(self) -> int:
        path = self.root / JOURNAL
        return path.stat().st_size if path.exists() else 0

    def journal(self) -> str:
        """What the host's journal has gained since the trial began."""
        with (self.root / JOURNAL).open(errors="replace") as file:
            file.seek(self._old)
            return file.read()

    def events(self) -> list[dict[str, Any]]:
        """The same as events; a line that is not whole yet is passed over."""
        found = []
        for line in self.journal().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def log(self) -> str:
        """The output of all that these runs' commands said."""
        runs = dict.fromkeys(str(event["run"]) for event in self.events())
        files = [(self.root / JOURNAL).with_name(f"{run}.log") for run in runs]
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def await_change(self, change: str, moment: str = "") -> None:
        """Wait until a change has begun, and its commands have said so much."""
        wait_for(lambda: any(is_change(event, change) for event in self.events()), change)
        wait_for(lambda: moment in self.log(), f"{moment!r} in {change}")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing of the run that goes on moves meanwhile, its commands included."""
        self.signal_run(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal_run(signal.SIGCONT)

    def signal_run(self, number: signal.Signals) -> None:
        """Signal all processes of the last run, at once."""
        unit = f"firstlight-{self.events()[-1]['run']}.service"
        for _ in range(2):  # one may have forked meanwhile
            for group in Path("/proc").glob("[0-9]*/cgroup"):
                with contextlib.suppress(OSError):
                    if unit in group.read_text():
                        os.kill(int(group.parent.name), number)


def is_change(event: dict[str, Any], change: str) -> bool:
    """Whether a change begins here whose id begins so."""
    return event["event"] == "change" and str(event["id"]).startswith(change)
