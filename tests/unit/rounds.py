"""Rounds as the runner carries them out, in the places that the fixture `places` moves."""

import json

from provision.remote import journal, runner


def run(script, timeout=10.0):
    return {"do": "run", "argv": ["sh", "-c", script], "timeout": timeout, "env": {}}


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
    }
    (folder / "round.json").write_text(json.dumps(order))
    runner.main(str(folder))
    return list(journal.Tail(name).new())


def words(events):
    return [(event["event"], event.get("id")) for event in events]


def mode(path):
    return path.stat().st_mode & 0o777
