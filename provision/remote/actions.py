"""Carries out one action of a change. Every one can be interrupted and done again."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from provision.remote import apt, apt_says, locks, openpgp, process, proof, release, sources
from provision.remote.command import ENV
from provision.remote.paths import BLOBS, private, replace

QUIET = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBCONF_NONINTERACTIVE_SEEN": "true",
    "UCF_FORCE_CONFFOLD": "1",
    "APT_LISTCHANGES_FRONTEND": "none",
    "APT_LISTBUGS_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "NEEDRESTART_MODE": "l",
}
"""Nothing may ask a question: there is nobody to answer. Whoever edited a file keeps it (ucf)."""
KEYRING_LIMIT = 1 << 20
"""Bytes that a key package may have; NVIDIA's has 4 kB."""

DOWNLOAD = ("apt-get", "download", "-o", "APT::Sandbox::User=root")
"""Into a folder that only root may enter, which apt's own user can't."""
LOCK_PATIENCE = 600.0
"""Seconds, as long as apt-get is told to wait for those locks that it waits for."""

Action = Mapping[str, Any]


class ActionFailed(Exception):
    """The action did not do what the plan says: why, in one line, and what can be done."""

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


@dataclass(frozen=True)
class Context:
    """What an action works with."""

    folder: Path
    """The run's private folder."""
    log: BinaryIO
    allowed: Mapping[str, Any]
    """What apt may install and remove in this round, as the plan showed it."""
    waiting: Callable[[str], None]
    """Is told for whom the run waits."""
    feeds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """A lock's sha256 → its wheels: file name → sha256."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str],
        accepts: Sequence[int] = (0,),
    ) -> None:
        """Run a command, its output going to the log.

        Raises ActionFailed when its exit status is not accepted, with the cause where its output
        tells one.
        """
        self.say(f"$ {' '.join(argv)}")
        start = self.log.tell()
        try:
            status = process.run(
                argv, output=self.log, env={**ENV, **QUIET, **env}, timeout=timeout
            )
        except FileNotFoundError as error:
            raise ActionFailed(f"there is no {argv[0]} on this host") from error
        except subprocess.TimeoutExpired as error:
            raise ActionFailed(f"{argv[0]} took more than {timeout:g} s") from error
        if status not in accepts:
            trouble = apt_says.diagnose(self.since(start))
            if trouble:
                raise ActionFailed(trouble.reason, hint=trouble.hint)
            how = f"was killed by signal {-status}" if status < 0 else f"exits {status}"
            raise ActionFailed(f"{argv[0]} {how}")

    def since(self, start: int) -> str:
        """The log from a byte on."""
        return Path(self.log.name).read_bytes()[start:].decode("utf-8", "replace")

    def say(self, line: str) -> None:
        """Write a line to the log."""
        self.log.write(line.encode() + b"\n")
        self.log.flush()


def carry_out(action: Action, context: Context) -> None:
    """Do one action. Raises ActionFailed."""
    ACTIONS[action["do"]](action, context)


def _write(action: Action, context: Context) -> None:
    context.say(f"write {action['path']}")
    replace(Path(action["path"]), action["content"].encode(), action["mode"])


def _remove(action: Action, context: Context) -> None:
    context.say(f"remove {action['path']}")
    Path(action["path"]).unlink(missing_ok=True)


def _run(action: Action, context: Context) -> None:
    if action["argv"][0] == "dpkg":  # apt-get has an option for that, dpkg has none
        _await(context, locks.FRONTEND, LOCK_PATIENCE)
    context.run(
        action["argv"],
        timeout=action["timeout"],
        env=action["env"],
        accepts=action["accepts"],
    )


def _keyring(action: Action, context: Context) -> None:
    context.say(f"fetch {action['url']}")
    try:
        with _opener(action["proxy"]).open(action["url"], timeout=60) as answer:
            package = answer.read(KEYRING_LIMIT)
    except (urllib.error.URLError, OSError) as error:
        raise ActionFailed(f"{action['url']} can't be fetched: {error}") from error
    digest = hashlib.sha256(package).hexdigest()
    if action["sha256"] and digest != action["sha256"]:
        raise ActionFailed(
            f"{action['url']} has sha256 {digest}, the stack says {action['sha256']}"
        )
    path = context.folder / "keyring.deb"
    path.write_bytes(package)
    found = _keys(path)
    if found != [action["fingerprint"]]:
        raise ActionFailed(
            f"{action['url']} brings keys {', '.join(found) or 'none'}, "
            f"the stack trusts {action['fingerprint']}"
        )
    _await(context, locks.FRONTEND, LOCK_PATIENCE)
    # The package's own list counts, also where somebody edited or deleted it.
    force = ["--force-confnew", "--force-confmiss"]
    context.run(["dpkg", *force, "--install", str(path)], timeout=120.0, env={})


def _await(context: Context, lock: Path, patience: float) -> None:
    """Wait for a lock of apt's or dpkg's. Raises ActionFailed, naming who does not let it go."""

    def say(reason: str) -> None:
        context.say(reason)
        context.waiting(reason)

    holder = locks.await_free(lock, say, patience)
    if holder:
        raise ActionFailed(
            f"{lock} is still held by {holder} after {LOCK_PATIENCE:g} s",
            hint="let that program end, or stop it, and run the same command again",
        )


def _opener(proxy: str | None) -> urllib.request.OpenerDirector:
    proxies = {"http": proxy, "https": proxy} if proxy else {}
    return urllib.request.build_opener(urllib.request.ProxyHandler(proxies))


def _keys(package: Path) -> list[str]:
    """Fingerprints of all keys that a package would install where apt finds keys."""
    unpacked = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=False
    )
    if unpacked.returncode:
        raise ActionFailed(f"{package.name} is no Debian package")
    found = []
    with tarfile.open(fileobj=io.BytesIO(unpacked.stdout)) as files:
        for member in files:
            places = ("/usr/share/keyrings/", "/etc/apt/keyrings/", "/etc/apt/trusted.gpg.d/")
            if any(p in member.name for p in places) and (file := files.extractfile(member)):
                try:
                    found += openpgp.fingerprints(file.read())
                except ValueError as error:
                    raise ActionFailed(f"{member.name}: {error}") from error
    return found


def _disable(action: Action, context: Context) -> None:
    path = Path(action["path"])
    context.say(f"switch off {action['uri']} in {path}")
    text = path.read_text(encoding="utf-8")
    switch = sources.disable_deb822 if path.suffix == ".sources" else sources.disable_lines
    replace(path, switch(text, action["uri"]).encode(), path.stat().st_mode & 0o777)


def _index(action: Action, context: Context) -> None:
    end = time.monotonic() + LOCK_PATIENCE
    while True:
        _await(context, locks.LISTS, end - time.monotonic())
        start = context.log.tell()
        try:
            context.run(action["argv"], timeout=600.0, env={})
        except ActionFailed:
            # Somebody else may have taken the lock in between.
            lost = apt_says.lists_locked(context.since(start))
            if not lost or time.monotonic() > end:
                raise
        else:
            return


def _apt(action: Action, context: Context) -> None:
    for lock in (locks.FRONTEND, locks.ARCHIVES):
        _await(context, lock, LOCK_PATIENCE)
    said = apt.simulate(action["argv"])
    if said["error"]:
        raise ActionFailed(f"apt refuses: {said['error']}", hint=said["hint"])
    more = apt.beyond(said, context.allowed)
    if more:
        raise ActionFailed(f"apt would do more than the plan says: {', '.join(more)}")
    context.run(action["argv"], timeout=3600.0, env={})


def _keep(action: Action, context: Context) -> None:
    """They are there whole or not at all: the folder gets its name when all are in it."""
    folder = Path(action["folder"])
    private(folder.parent)
    if not folder.is_dir():
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        private(part)
        words = [f"{name}={version}" for name, version in action["packages"].items()]
        # env, because apt-get download knows no folder but the one it is in
        context.run(("env", f"--chdir={part}", *DOWNLOAD, *words), timeout=1800.0, env={})
        part.rename(folder)
    for old in action["forget"]:
        context.say(f"remove {old}")
        shutil.rmtree(old, ignore_errors=True)


def _python(action: Action, context: Context) -> None:
    start = context.log.tell()
    try:
        context.run(action["argv"], timeout=1800.0, env=action["env"])
    except ActionFailed as error:
        lines = context.since(start).splitlines()
        causes = [line.strip().removeprefix("cause: ") for line in lines if "cause: " in line]
        fetched = next((cause for cause in causes if cause.startswith("Failed to download")), "")
        why = ": ".join(dict.fromkeys(filter(None, [fetched, *causes[-1:]]))) or str(error)
        raise ActionFailed(
            f"uv can't fetch a Python: {why}",
            hint='let the host reach that address, or say `interpreter = "system"` in the stack',
        ) from error


def _unpack(action: Action, context: Context) -> None:
    context.say(f"unpack {action['member']} to {action['path']}")
    with zipfile.ZipFile(io.BytesIO(_blob(action["wheel"]))) as files:
        replace(Path(action["path"]), files.read(action["member"]), 0o755)


def _place(action: Action, context: Context) -> None:
    context.say(f"put {action['path']}")
    replace(Path(action["path"]), _blob(action["sha256"]), 0o644)


def _feed(action: Action, context: Context) -> None:
    """As links: gigabytes are uploaded once, and lie on the disk once."""
    folder = Path(action["folder"])
    files = context.feeds[action["lock"]]
    context.say(f"put {len(files)} wheels into {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, sha256 in files.items():
        _blob(sha256)
        _link(folder / name, BLOBS / sha256)


def _blob(sha256: str) -> bytes:
    path = BLOBS / sha256
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != sha256:
        path.unlink(missing_ok=True)  # it is uploaded anew by the next round
        raise ActionFailed(f"the upload {sha256} is missing or damaged")
    return content


def _seal(action: Action, context: Context) -> None:
    path = Path(action["release"])
    context.say(f"prove {path}")
    gpus = proof.gpus()
    faults = proof.prove(path, lock_versions=action["versions"], gpus=gpus)
    for fault in faults:
        context.say(fault)
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise ActionFailed(f"it is not as locked: {'; '.join(faults[:3])}{more}")
    about = {name: action[name] for name in ("lock", "wheels", "python")}
    release.seal(path, {**about, "gpus": gpus or []})


def _intact(action: Action, context: Context) -> None:
    path = Path(action["release"])
    context.say(f"hold {path} to what it was")
    hint = "`invoke provision` makes a release that is as the stack wants"
    try:
        changed = release.changes(path)
    except OSError as error:
        raise ActionFailed(f"{path.name}: the list of its files is gone", hint=hint) from error
    if changed:
        first = "{path} {what}".format(**changed[0])
        raise ActionFailed(f"{path.name} was changed since it was sealed: {first}", hint=hint)


def _discard(action: Action, context: Context) -> None:
    for folder in action["releases"]:
        users = release.users(folder)
        if users:
            context.say(f"{folder} stays: {', '.join(users[:3])} still use it")
            continue
        context.say(f"remove {folder}")
        shutil.rmtree(folder, ignore_errors=True)
        Path(f"{folder}.txt").unlink(missing_ok=True)
    for path in map(Path, action["beside"]):
        context.say(f"remove {path}")
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _switch(action: Action, context: Context) -> None:
    context.say(f"point {action['link']} to {action['target']}")
    _link(Path(action["link"]), Path(action["target"]))


def _link(link: Path, target: Path) -> None:
    """Make a symbolic link, or point it elsewhere, by a rename."""
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


ACTIONS: dict[str, Callable[[Action, Context], None]] = {
    "write": _write,
    "remove": _remove,
    "run": _run,
    "keyring": _keyring,
    "disable": _disable,
    "index": _index,
    "apt": _apt,
    "python": _python,
    "unpack": _unpack,
    "place": _place,
    "feed": _feed,
    "seal": _seal,
    "intact": _intact,
    "discard": _discard,
    "switch": _switch,
    "keep": _keep,
}
"""By the plan's word. A reboot is the runner's own, when everything else is on disk."""
