"""What other programs do to apt and dpkg meanwhile, and what is done about it. On a bare host."""

from __future__ import annotations

import pytest

from provision import engine, lab
from provision.target import target
from tests.lab.hosts import host_entry, on_host

HOST = "a-apt"
HOLD = """\
#!/usr/bin/python3
import fcntl, signal, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
open(sys.argv[0] + ".holds", "w")
signal.pause()
"""


@pytest.fixture(scope="module")
def there():
    found = target(host_entry(HOST), start=lambda _: None)
    yield found
    found.transport.close()
    lab.down(HOST, discard=True)


def hold(there, name, path):
    """A program of this name holds a lock until it is killed."""
    on_host(
        there,
        f"""
        cat > /usr/local/bin/{name} <<'END'
{HOLD}END
        chmod +x /usr/local/bin/{name}
        touch {path}
        setsid /usr/local/bin/{name} {path} < /dev/null > /dev/null 2>&1 &
        until [ -e /usr/local/bin/{name}.holds ]; do sleep 0.1; done
        """,
    )


def test_locks_are_waited_for_and_who_holds_them_is_told(there):
    hold(there, "tidy-packages", "/var/lib/dpkg/lock-frontend")
    hold(there, "tidy-lists", "/var/lib/apt/lists/lock")
    waited = []

    def tell(event):
        if event["event"] == "waiting":
            what, _, holder = event["reason"].partition(": held by ")
            name = holder.partition(" (pid ")[0]
            waited.append((what, name))
            on_host(there, f"pkill -x {name}")

    engine.apply(there, engine.look(there), tell)
    assert waited == [
        ("waiting for /var/lib/dpkg/lock-frontend", "tidy-packages"),
        ("waiting for /var/lib/apt/lists/lock", "tidy-lists"),
    ]
    assert engine.look(there).plan.now.changes[0].stage.name == "PACKAGES"
