"""A plan's actions as the commands and files that they are."""

from __future__ import annotations

from pathlib import Path

from provision.plan import (
    Action,
    Apt,
    Disable,
    Discard,
    Feed,
    Index,
    Intact,
    Keep,
    Keyring,
    Place,
    Python,
    Reboot,
    Remove,
    Run,
    Seal,
    Switch,
    Unpack,
    Write,
)

FILE_LINES = 40
"""Of a file's content that are shown."""
NAMES = 8
"""Packages that are named before the rest is counted."""


def action_lines(action: Action, *, whole: bool) -> list[str]:
    """An action as commands and files; `whole` adds the content of files."""
    match action:
        case Write():
            content = action.content.splitlines() if whole else []
            size = len(action.content.encode())
            more = len(content) - FILE_LINES
            return [
                f"write {action.path} ({size} bytes, mode {action.mode:04o})",
                *(f"  {line}" for line in content[:FILE_LINES]),
                *([f"  … and {more} more lines"] if more > 0 else []),
            ]
        case Remove():
            return [f"remove {action.path}"]
        case Run() | Python():
            env = [f"{name}={value}" for name, value in action.env.items()] if whole else []
            return ["$ " + " ".join([*env, *action.argv])]
        case Keyring():
            return [f"fetch {action.url}", f"  hold its key to {action.fingerprint}, install it"]
        case Disable():
            return [f"switch off {action.uri} in {action.path}"]
        case Index():
            return ["$ " + " ".join(action.argv)]
        case Apt():
            return ["$ " + " ".join(action.argv), *_apt_lines(action, whole=whole)]
        case Keep():
            gone = [f"remove {folder}" for folder in action.forget]
            return [f"keep {len(action.packages)} packages in {action.folder}", *gone]
        case Unpack():
            return [f"unpack {action.member} of the uploaded wheel to {action.path}"]
        case Feed():
            return [f"put the uploaded wheels of lock {action.lock[:12]} into {action.folder}"]
        case Place():
            return [f"put the uploaded {Path(action.path).name} to {action.path}"]
        case Seal():
            return [f"hold {action.release} to lock, RECORD and GPUs, then seal it"]
        case Intact():
            return [f"hold {action.release} to what it was when it was sealed"]
        case Discard():
            return [f"remove {path}" for path in (*action.releases, *action.beside)]
        case Switch():
            return [f"point {action.link} to {action.target}"]
        case Reboot():
            return ["$ systemctl reboot"]


def _apt_lines(action: Apt, *, whole: bool) -> list[str]:
    if action.install is None:
        return ["  apt is asked when its round comes"]
    names = sorted(action.install)
    lines = [f"  installs {len(names)}: {', '.join(names if whole else names[:NAMES])}"]
    lines[0] += "" if whole or len(names) <= NAMES else ", …"
    removed = ", ".join(f"{name} {version}" for name, version in action.remove.items())
    return [*lines, f"  removes {removed or 'nothing'}"]
