"""Records a lab host's facts before every round of its way: `python -m tests.scenarios.record`.

What differs from one machine or run to the next is replaced, so that a new record is a diff
worth reading.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from provision import engine, inventory, lab
from provision.stack import Repository
from provision.target import lab_spec, target

FOLDER = Path(__file__).parent
REPOSITORY = "http://127.0.0.1:2201"
FINGERPRINT = "0123456789ABCDEF0123456789ABCDEF01234567"
ROUNDS = ("bare", "sources", "packages", "rebooted", "finished")
"""What a bare host has become before each round, and after the last."""


def tidy(raw: dict[str, Any], repository: Repository) -> dict[str, Any]:
    """Without what only this machine or this minute has."""
    text = json.dumps(raw).replace(repository.url.split("/debian")[0], REPOSITORY)
    text = text.replace(repository.fingerprint, FINGERPRINT)
    text = re.sub(r"https?://(?!127\.)[^/\" ]+/", "http://deb.example/", text)
    data: dict[str, Any] = json.loads(text)
    for answer in data["facts"].values():
        answer.pop("seconds", None)
    values = {name: answer.get("value") for name, answer in data["facts"].items()}
    values["boot"].update(id="00000000-0000-0000-0000-000000000000", uptime=60.0)
    values["clock"].update(now=1.8e9)
    values["memory"].update(total=2**40, available=2**40 - 2**35, cpus=64)
    values["limits"].update(memlock=2**23, nofile=2**19, shm=2**39)
    for disk in values["disks"].values():
        disk.update(total=2**41, free=2**40, device=1)
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=["bookworm", "trixie"])
    suite = parser.parse_args().suite
    stack = "lab" if suite == "bookworm" else "lab-cuda131"
    text = f"default: record\nhosts:\n  record: {{lab: {{suite: {suite}}}, stack: {stack}}}\n"
    host = inventory.parse(text, "record.yaml").select()[0]
    lab.up(lab_spec(host), fresh=True, say=print)
    there = target(host)
    try:
        for name in ROUNDS:
            seen = engine.look(there)
            raw = tidy(dict(seen.raw), there.want.repository)
            folder = FOLDER / f"{'debian12' if suite == 'bookworm' else 'debian13'}-{name}"
            folder.mkdir(exist_ok=True)
            (folder / "facts.json").write_text(json.dumps(raw, indent=1) + "\n")
            if not seen.plan.empty:
                engine.apply(there, seen, lambda _: None)
    finally:
        there.transport.close()
        lab.down("record", discard=True)


if __name__ == "__main__":
    main()
