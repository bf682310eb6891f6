"""NVIDIA's apt repository and the one key that may sign it. Reads os, apt."""

from __future__ import annotations

from typing import Any

from provision.facts import Facts, Os
from provision.plan import Change, Keyring, Stage
from provision.resources.known import NotKnown, known
from provision.stack import Repository
from provision.want import Want, distribution

NAME = "apt_source"
STAGE = Stage.SOURCES

PACKAGE = "cuda-keyring"
VERSION = "1.1-1"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
"""Where the key package puts the key: NVIDIA's own path, so that a later installation of the
package by hand does not give a second source with another Signed-By."""


def query(want: Want) -> dict[str, Any]:
    return {"packages": [PACKAGE]}


def repository(want: Want, os: Os) -> Repository:
    """The repository for this host. Raises NotKnown where the stack has none."""
    found = want.repository_for(os)
    if found is None:
        raise NotKnown(
            f"stack {want.stack.name} knows no repository for {os.name} ({distribution(os)})",
            subject=distribution(os),
            hint=f"it knows {', '.join(sorted(want.stack.system.repository))}",
        )
    return found


def plan(want: Want, facts: Facts) -> list[Change]:
    os = known(facts.os, "os")
    apt = known(facts.apt, "apt")
    wanted = repository(want, os)
    uri = wanted.url.rstrip("/")
    sources = apt.sources.get(uri, [])
    if len(sources) == 1 and sources[0].fingerprints == [wanted.fingerprint]:
        return []
    if sources:
        files = ", ".join(f"{s.file} (signed by {s.signed_by})" for s in sources)
        raise NotKnown(
            f"{uri} is already a source, with another key or twice: {files}",
            subject=uri,
            hint="remove the lines written by hand, then plan again",
        )
    file = f"/etc/apt/sources.list.d/cuda-{distribution(os)}-{os.arch}.list"
    return [
        Change(
            resource=NAME,
            subject=uri,
            stage=STAGE,
            before="no source",
            after=f"signed by {wanted.fingerprint}",
            why="driver and toolkits come from NVIDIA's repository alone",
            actions=(
                Keyring(
                    url=f"{uri}/{PACKAGE}_{VERSION}_all.deb",
                    sha256=wanted.keyring_sha256,
                    fingerprint=wanted.fingerprint,
                ),
            ),
            makes={
                "apt": {
                    "sources": {
                        uri: [
                            {
                                "file": file,
                                "suite": "/",
                                "signed_by": KEYRING,
                                "fingerprints": [wanted.fingerprint],
                            }
                        ]
                    }
                },
                "dpkg": {
                    "packages": {
                        PACKAGE: {"version": VERSION, "status": "installed", "hold": False}
                    }
                },
            },
        )
    ]
