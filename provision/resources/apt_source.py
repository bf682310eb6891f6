"""NVIDIA's apt repository and the one key that may sign it. Reads os, apt."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from provision.facts import Facts, Os, Source
from provision.plan import Change, Disable, Keyring, Stage
from provision.resources.apt_packages import installed
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
    ours = f"/etc/apt/sources.list.d/cuda-{distribution(os)}-{os.arch}.list"
    sources = apt.sources.get(uri, [])
    right = [s for s in sources if s.fingerprints == [wanted.fingerprint] and not s.trusted]
    if len(sources) == 1 and right:
        return []
    keep = next((s for s in right if s.file == ours), None)
    others = [s for s in sources if s is not keep and s.file != ours]
    changes = [_switched_off(uri, source, keep) for source in {s.file: s for s in others}.values()]
    if keep:
        return changes
    proxy = None if urlsplit(uri).hostname in want.site.direct else want.site.proxy
    return [*changes, _added(uri, wanted, ours, sources, proxy)]


def _switched_off(uri: str, source: Source, keep: Source | None) -> Change:
    left = [asdict(keep)] if keep else []
    return Change(
        resource=NAME,
        subject=source.file,
        stage=STAGE,
        before=f"{uri} {_signed(source)}",
        after=f"{uri} switched off",
        why="two sources for one repository contradict each other (Signed-By)",
        actions=(Disable(path=source.file, uri=uri),),
        makes={"apt": {"error": None, "sources": {uri: left}}},
    )


def _signed(source: Source) -> str:
    return "without a signature" if source.trusted else f"signed by {source.signed_by or 'any key'}"


def _added(
    uri: str, wanted: Repository, file: str, sources: list[Source], proxy: str | None
) -> Change:
    keys = ", ".join(key for source in sources for key in source.fingerprints)
    return Change(
        resource=NAME,
        subject=uri,
        stage=STAGE,
        before=f"signed by {keys or 'any key'}" if sources else "no source",
        after=f"signed by {wanted.fingerprint}",
        why="driver and toolkits come from NVIDIA's repository alone",
        actions=(
            Keyring(
                url=f"{uri}/{PACKAGE}_{VERSION}_all.deb",
                sha256=wanted.keyring_sha256,
                fingerprint=wanted.fingerprint,
                proxy=proxy,
            ),
        ),
        makes={
            "apt": {
                "error": None,
                "sources": {
                    uri: [
                        {
                            "file": file,
                            "suite": "/",
                            "signed_by": KEYRING,
                            "fingerprints": [wanted.fingerprint],
                            "trusted": False,
                        }
                    ]
                },
            },
            "dpkg": {"packages": {PACKAGE: installed(VERSION)}},
        },
    )
