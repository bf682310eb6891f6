"""Change, Round, Plan: what will be done, as data. Pure: the same want and facts, the same plan.

A plan's first round is what can be known and done now; the later ones are expected, found by
planning again from the facts that the round before promises.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

SCHEMA = 1
"""Version of a plan's JSON."""

Json = Mapping[str, Any]


class Stage(IntEnum):
    """What must be true before what. A round holds changes of one stage."""

    PREFLIGHT = 0
    """What would fail later, before anything changes."""
    SOURCES = 1
    """Where packages come from, and what may not happen by itself."""
    REPAIR = 2
    """What apt must put in order before it installs anything."""
    PACKAGES = 3
    REBOOT = 4
    RUNTIME = 5
    """What runs on a driver that works: services, uv, environments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """Put a file, by a rename, owned by root."""

    do: ClassVar[str] = "write"
    path: str
    content: str
    mode: int = 0o644


@dataclass(frozen=True, kw_only=True, slots=True)
class Remove:
    """Take away a file of ours."""

    do: ClassVar[str] = "remove"
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Run a command; any other exit status than those accepted fails the change."""

    do: ClassVar[str] = "run"
    argv: tuple[str, ...]
    timeout: float = 600.0
    """Seconds."""
    env: Mapping[str, str] = field(default_factory=dict)
    accepts: tuple[int, ...] = (0,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Keyring:
    """Fetch a repository's key package, hold it to hash and fingerprint, and install it."""

    do: ClassVar[str] = "keyring"
    url: str
    sha256: str | None
    fingerprint: str
    proxy: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Disable:
    """Switch off the apt sources of a file that name a URI; its other sources stay."""

    do: ClassVar[str] = "disable"
    path: str
    uri: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """Fetch apt's index, once nobody else does: apt-get itself does not wait for that."""

    do: ClassVar[str] = "index"
    argv: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Apt:
    """An apt transaction. It is simulated first and stops if apt would do more than this."""

    do: ClassVar[str] = "apt"
    argv: tuple[str, ...]
    install: Mapping[str, Sequence[str | None]] | None = None
    """Package → [version now, version afterwards]; None until apt has been asked."""
    remove: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Names the transaction in the facts' simulations."""
        return " ".join(self.argv)


@dataclass(frozen=True, kw_only=True, slots=True)
class Keep:
    """Fetch the packages of what is about to be replaced, so that the host can go back."""

    do: ClassVar[str] = "keep"
    packages: Mapping[str, str]
    """Package → the version that is installed."""
    folder: str
    forget: tuple[str, ...] = ()
    """Folders of older versions, which go."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Python:
    """Have uv fetch a Python of its own, unless it is there."""

    do: ClassVar[str] = "python"
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unpack:
    """Take one executable out of an uploaded wheel."""

    do: ClassVar[str] = "unpack"
    wheel: str
    """Its sha256: the wheel is uploaded before the round starts."""
    member: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Put an uploaded file where it is needed, under its own name."""

    do: ClassVar[str] = "place"
    sha256: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Feed:
    """Put a lock's uploaded wheels into a folder, for a host that reaches no index."""

    do: ClassVar[str] = "feed"
    lock: str
    """Its sha256. Which files it comes to is found when they are fetched, by its hashes."""
    python: str
    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """Hold a finished release to its lock, RECORD files and GPUs, then write its manifest."""

    do: ClassVar[str] = "seal"
    release: str
    lock: str
    python: str
    versions: Mapping[str, str]
    """Distribution → version, all of them."""
    wheels: Mapping[str, str] = field(default_factory=dict)
    """Wheels of our own: distribution → sha256."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Intact:
    """Hold a sealed release to what it was then."""

    do: ClassVar[str] = "intact"
    release: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Discard:
    """Remove releases: unfinished ones, and old ones that no process uses."""

    do: ClassVar[str] = "discard"
    releases: tuple[str, ...]
    beside: tuple[str, ...] = ()
    """Locks, wheels and feeds that no release is made from which stays."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Switch:
    """Point a symbolic link to another target, by a rename."""

    do: ClassVar[str] = "switch"
    link: str
    target: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reboot:
    """Restart the host; the last action of its round."""

    do: ClassVar[str] = "reboot"


Action = (
    Write
    | Remove
    | Run
    | Keyring
    | Disable
    | Index
    | Apt
    | Keep
    | Python
    | Unpack
    | Place
    | Feed
    | Seal
    | Intact
    | Discard
    | Switch
    | Reboot
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One thing on the host that will differ, and why.

    A change with `blocked` is not carried out: it says why it can't be planned. One with
    `awaited` waits for something that nobody has made yet and holds up nothing.
    """

    resource: str
    subject: str
    stage: Stage
    before: str
    after: str
    why: str
    actions: tuple[Action, ...] = ()
    makes: Json = field(default_factory=dict)
    """Collector → the part of its value that becomes true: the change's promise."""
    blocked: str = ""
    awaited: str = ""
    hint: str = ""

    @property
    def id(self) -> str:
        """Resource and subject, unique in a plan."""
        return f"{self.resource}:{self.subject}"

    @property
    def reboots(self) -> bool:
        """Whether the host restarts at its end."""
        return any(isinstance(action, Reboot) for action in self.actions)


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """Changes that are carried out together, in order."""

    changes: tuple[Change, ...]

    @property
    def actionable(self) -> bool:
        """Whether it can be carried out: nothing in it is blocked."""
        return bool(self.changes) and not self.blocked

    @property
    def blocked(self) -> tuple[Change, ...]:
        """Changes that can't be planned, each with its reason."""
        return tuple(change for change in self.changes if change.blocked)

    @property
    def reboots(self) -> bool:
        """Whether the host restarts at its end."""
        return any(change.reboots for change in self.changes)

    @property
    def unasked(self) -> tuple[Apt, ...]:
        """apt transactions of which apt has not yet said what they would do."""
        return tuple(
            action
            for change in self.changes
            for action in change.actions
            if isinstance(action, Apt) and action.install is None
        )

    @property
    def fingerprint(self) -> str:
        """sha256 of what would be done; promises and wording left out."""
        content = [
            [change.id, change.blocked, [_action(action) for action in change.actions]]
            for change in self.changes
        ]
        return hashlib.sha256(_canonical(content).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The rounds that lead from the facts to the want; no rounds: nothing to do."""

    host: str
    stack: str
    rounds: tuple[Round, ...]
    awaited: tuple[Change, ...] = ()

    @property
    def empty(self) -> bool:
        """The host is as wanted, but for what is awaited."""
        return not self.rounds

    @property
    def now(self) -> Round:
        """The round that can be carried out now."""
        return self.rounds[0] if self.rounds else Round(changes=())

    @property
    def fingerprint(self) -> str:
        """sha256 of the first round's actions: two plans that do the same have the same."""
        return self.now.fingerprint

    def to_data(self) -> dict[str, Any]:
        """The plan as JSON, whole: what is saved, compared and printed."""
        return {
            "schema": SCHEMA,
            "host": self.host,
            "stack": self.stack,
            "fingerprint": self.fingerprint,
            "empty": self.empty,
            "rounds": [[change_data(c) for c in one.changes] for one in self.rounds],
            "awaited": [change_data(change) for change in self.awaited],
        }


def change_data(change: Change) -> dict[str, Any]:
    """A change as JSON."""
    data = {
        "id": change.id,
        "resource": change.resource,
        "subject": change.subject,
        "stage": change.stage.name.lower(),
        "before": change.before,
        "after": change.after,
        "why": change.why,
        "reboots": change.reboots,
        "actions": [_action(action) for action in change.actions],
        "makes": change.makes,
    }
    reasons = {"blocked": change.blocked, "awaited": change.awaited, "hint": change.hint}
    said: dict[str, Any] = json.loads(_canonical(data))
    return said | {name: reason for name, reason in reasons.items() if reason}


def _action(action: Action) -> dict[str, Any]:
    return {"do": action.do, **asdict(action)}


def _canonical(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
