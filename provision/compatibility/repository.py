"""Each distribution against the apt repository that is meant for it, and the key that signs it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from provision.compatibility import seen
from provision.compatibility.row import Row, Unseen, judged
from provision.facts import Facts
from provision.stack import Repository
from provision.want import Want, distribution


def key(want: Want, facts: Facts | None) -> Iterator[Row]:
    """The distribution's apt takes the key."""
    for name, one in _repositories(want, facts).items():
        refused = want.stack.system.refused_keys.get(name, ())
        if refused:
            yield judged(
                one.fingerprint not in refused,
                rule="repository.key",
                subject=name,
                left=f"apt of {name} refuses the key {', '.join(refused)}",
                right=f"its repository is signed by {one.fingerprint}",
                source="system: refused_keys",
                reason="apt takes nothing from it",
                hint=f"name NVIDIA's repository for {name} itself, and its key",
            )


def folder(want: Want, facts: Facts | None) -> Iterator[Row]:
    """No repository of one distribution is used for another: a folder in the address tells."""
    known = want.stack.system.repository
    for name, one in _repositories(want, facts).items():
        others = (known.keys() - {name}) & set(urlsplit(one.url).path.split("/"))
        if one is known.get(name):  # a mirror's folders are its own affair
            yield judged(
                not others,
                rule="repository.folder",
                subject=name,
                left=f"this is the repository for {name}",
                right=f"its address is that for {', '.join(sorted(others)) or name}",
                source=f"system: repository.{name}.url",
                reason="its packages are another distribution's",
                hint=f"name NVIDIA's repository for {name} itself, and its key",
            )


def _repositories(want: Want, facts: Facts | None) -> dict[str, Repository]:
    """The host's, or without one all that the stack knows."""
    if facts is None:
        return want.stack.system.repository
    system = seen.os(facts)
    found = None if isinstance(system, Unseen) else want.repository_for(system)
    return {distribution(system): found} if found and not isinstance(system, Unseen) else {}
