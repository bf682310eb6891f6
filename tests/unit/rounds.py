"""Rounds as the runner carries them out (fixture `places`), and what an installer leaves."""

import base64
import hashlib
import json

from provision.remote import journal, runner


def run(script, timeout=10.0):
    return {
        "do": "run",
        "argv": ["sh", "-c", script],
        "timeout": timeout,
        "env": {},
        "accepts": [0],
    }


def carry_out(places, changes, name="r1", after=None):
    """A whole round by the runner; its events as the journal has them."""
    folder = places.RUN / name
    folder.mkdir(parents=True)
    order = {
        "run": name,
        "who": "me@here",
        "after": after,
        "fingerprint": "f",
        "changes": changes,
        "allowed": {"install": {}, "remove": {}},
        "feeds": {},
    }
    (folder / "round.json").write_text(json.dumps(order))
    runner.main(str(folder))
    return list(journal.Tail(name).new())


def words(events):
    return [(event["event"], event.get("id")) for event in events]


def mode(path):
    return path.stat().st_mode & 0o777


def digest(content):
    raw = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def site_packages(folder, files, *, hashed=True):
    """A site-packages folder with one distribution, as an installer leaves it."""
    info = folder / "a-1.dist-info"
    info.mkdir(parents=True)
    rows = []
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        rows.append(f"{name},{digest(content)},{len(content)}" if hashed else f"{name},,")
    (info / "RECORD").write_text("\n".join([*rows, "a-1.dist-info/RECORD,,", ""]))
    return folder
