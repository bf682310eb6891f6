"""What other programs do to apt and dpkg meanwhile, and what is done about it. On a bare host."""

from __future__ import annotations

import pytest

from provision import engine, lab, resources, wire
from provision.lab.debs import Package, text
from provision.plan import Stage, change_data
from provision.resources import apt_packages, dpkg, unfinished
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


CLOUD_INIT = """\
#!/bin/sh
[ "$*" = "status --wait" ] || exit 1
echo '{}' > /run/cloud-init/result.json
echo "status: done"
exit 2
"""
"""Ends when it is waited for, with an error after which it went on."""


def test_cloud_init_is_waited_for_first(there):
    on_host(
        there,
        f"""
        cat > /usr/local/bin/cloud-init <<'END'
{CLOUD_INIT}END
        chmod +x /usr/local/bin/cloud-init
        mkdir -p /run/cloud-init
        touch /run/cloud-init/enabled
        """,
    )
    first, *rest = engine.look(there).plan.now.changes
    assert first.id == "cloud_init:cloud-init"
    done = carry_out(there, *change_data(first)["actions"])
    assert done["result"] == "done"
    assert engine.look(there).plan.now.changes == tuple(rest)


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
    seen = engine.look(there)
    assert {change.stage.name for change in seen.plan.now.changes} == {"PACKAGES"}
    sizes = [(said.download, said.installs) for said in seen.facts.simulations.values()]
    assert any(download > 0 for download, _ in sizes)
    assert all(installs > 0 for _, installs in sizes)


def test_a_tampered_index_is_told_as_what_it_is(there):
    index = lab.find(HOST).root.parent / "repository/debian12/x86_64/InRelease"
    genuine = index.read_text()
    on_host(there, "rm -r /var/lib/apt/lists")
    try:
        index.write_text(genuine.replace("Label: NVIDIA", "Label: NVIDIB"))
        with pytest.raises(engine.NotConverged, match="was changed after it was signed") as failed:
            engine.apply(there, engine.look(there), lambda _: None)
    finally:
        index.write_text(genuine)
    assert "a proxy or mirror in between" in failed.value.hint
    assert any("BADSIG" in line for line in failed.value.log)
    engine.apply(there, engine.look(there), lambda _: None)


def carry_out(there, *actions, install=()):
    """One change of these actions, by the host's own runner; its last event."""
    seen = wire.probe(there.transport, resources.QUERY)
    order = {
        "who": "test",
        "after": seen["facts"]["journal"]["value"]["last"],
        "fingerprint": "",
        "changes": [{"id": "test", "actions": list(actions)}],
        "allowed": {"install": {p.name: [None, p.version] for p in install}, "remove": {}},
        "feeds": {},
    }
    events = list(wire.apply(there.transport, order))
    return next((event for event in events if event["event"] == "failed"), events[-1])


def put(there, package):
    """A package's file on the host; its path there."""
    path = f"root/{package.filename}"
    (lab.find(HOST).root / path).write_bytes(package.deb())
    return f"/{path}"


def install(there, package):
    argv = [*apt_packages.INSTALL, "--reinstall", put(there, package)]
    return carry_out(there, {"do": "apt", "argv": argv}, install=[package])


def said(there, *argv):
    return there.transport.run(argv, b"", deadline=30).out.strip()


CONFMODULE = "#!/bin/sh\nset -e\n. /usr/share/debconf/confmodule\n"
ASK = "db_fset lab-asks/what seen false\ndb_input critical lab-asks/what || true\ndb_go || true\n"
TEMPLATES = """\
Template: lab-asks/what
Type: string
Description: What?
 Nobody is there to answer.
"""


def asks(version, setting):
    return Package(
        name="lab-asks",
        version=version,
        architecture="all",
        summary="Asks, and has a file that its administrator edits",
        files={"etc/lab-asks.conf": text(f"{setting}\n")},
        scripts={
            "templates": TEMPLATES,
            "config": f"{CONFMODULE}{ASK}",
            "preinst": "#!/bin/sh\nread -r answer || true\n",
            "postinst": f"{CONFMODULE}{ASK}",
        },
    )


def test_a_package_that_asks_is_installed_and_whoever_edited_a_file_keeps_it(there):
    assert install(there, asks("1.0", "first"))["result"] == "done"
    on_host(there, "echo mine > /etc/lab-asks.conf")
    assert install(there, asks("2.0", "second"))["result"] == "done"
    assert said(there, "cat", "/etc/lab-asks.conf") == "mine"
    assert said(there, "dpkg-query", "-W", "-f=${Version} ${Status}", "lab-asks") == (
        "2.0 install ok installed"
    )


def test_nothing_of_an_installation_that_takes_too_long_goes_on(there):
    slow = Package(
        name="lab-slow",
        version="1.0",
        architecture="all",
        summary="Is never done",
        scripts={"postinst": "#!/bin/sh\nexec sleep 6000\n"},
    )
    argv = [*apt_packages.INSTALL, put(there, slow)]
    run = {"do": "run", "argv": argv, "timeout": 15.0, "env": {}, "accepts": [0]}
    failed = carry_out(there, run)
    assert failed["reason"] == "apt-get took more than 15 s"
    assert said(there, "pgrep", "-x", "apt-get|dpkg|sleep") == ""
    on_host(there, "dpkg --purge --force-all lab-slow")


HALF = Package(
    name="lab-half",
    version="1.0",
    architecture="all",
    summary="Is killed while it is unpacked for the first time",
    files={"usr/share/lab-half/data": text("x\n" * 10_000)},
    scripts={
        "preinst": "#!/bin/sh\n[ -e /run/lab-half ] && exit 0\ntouch /run/lab-half\nsleep 600\n"
    },
)
USER = Package(
    name="lab-user",
    version="1.0",
    architecture="all",
    summary="Is unpacked before what it depends on",
    depends=("lab-half",),
)


def mended(there) -> list[str]:
    """What one round mends of dpkg."""
    seen = engine.look(there)
    engine.apply(there, seen, lambda _: None)
    mends = (dpkg.NAME, unfinished.NAME)
    return [change.id for change in seen.plan.now.changes if change.resource in mends]


def test_a_dpkg_that_was_killed_while_unpacking_is_mended(there):
    for package in (HALF, USER):
        put(there, package)
    on_host(
        there,
        """
        mkdir /root/pool
        mv /root/lab-half_1.0_all.deb /root/pool
        cd /root/pool
        apt-ftparchive packages . > Packages
        echo 'deb [trusted=yes] file:/root/pool ./' > /etc/apt/sources.list.d/pool.list
        apt-get -qq update
        dpkg --unpack /root/lab-user_1.0_all.deb
        setsid apt-get -qq -y --fix-broken install < /dev/null > /dev/null 2>&1 &
        until [ -e /run/lab-half ]; do sleep 0.1; done
        pkill -KILL -x 'apt-get|dpkg|lab-half.preins|sleep'
        """,
    )
    before = engine.look(there)
    assert before.facts.dpkg.interrupted
    broken = {"lab-half": "half-installed", "lab-user": "unpacked"}
    packages = before.facts.dpkg.packages
    assert {name: packages[name].status for name in broken} == broken
    assert mended(there) == ["dpkg:dpkg"]
    assert mended(there) == ["unfinished:lab-half, lab-user"]
    assert said(there, "dpkg", "--audit") == ""
    assert said(there, "dpkg-query", "-W", "-f=${Status}", "lab-user") == "install ok installed"
    assert engine.look(there).plan.now.changes[0].stage == Stage.PACKAGES
    # A kill a moment later, which leaves all files and yet dpkg's word that they are not right.
    flagged = "/^Package: lab-half$/,/^$/s/^Status: .*/Status: install reinstreq unpacked/"
    on_host(there, f"sed -i '{flagged}' /var/lib/dpkg/status")
    assert mended(there) == ["unfinished:lab-half"]
    assert said(there, "dpkg", "--audit") == ""
    assert engine.look(there).plan.now.changes[0].stage == Stage.PACKAGES
