"""What apt, dpkg and DKMS say when they fail: the cause in one line, and what to do. Pure.

Known are the texts of apt 2.6 and 3.0, dpkg 1.21 and 1.22, DKMS 3.0 and 3.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from provision.remote import source_says
from provision.remote.source_says import AGAIN, CLOCK


@dataclass(frozen=True)
class Trouble:
    """Why a command failed, in one line, and what can be done about it."""

    reason: str
    hint: str


Found = re.Match[str]
Tell = Callable[[Found], Trouble | None]
"""Makes a message of what a rule found; None where it is not that after all."""


def diagnose(output: str) -> Trouble | None:
    """The trouble of which a failed command's output tells; None where that is not known.

    Where it tells of several, the one that brings about the others.
    """
    for pattern, tell in RULES:
        found = re.search(pattern, output, re.MULTILINE)
        if found and (trouble := tell(found)):
            return trouble
    return None


def lists_locked(output: str) -> bool:
    """Whether apt-get update gave up because another program was fetching the index."""
    return bool(re.search(r"^E: Could not get lock /var/lib/apt/lists/lock", output, re.MULTILINE))


# --- the host -----------------------------------------------------------------------------------

SPACE = r"^.*(?:No space left on device|enough free space in).*$"


def _space(found: Found) -> Trouble:
    lines = re.findall(SPACE, found.string, re.MULTILINE)
    initrd = re.search(r"update-initramfs: failed for (/boot/\S+)", found.string)
    place = initrd[1] if initrd else next(filter(None, map(_place, lines)), "one of its files")
    return Trouble(
        f"no space left for {place}",
        "make space on its file system (df -h; apt-get clean; old kernels fill /boot), then "
        f"{AGAIN}",
    )


def _place(line: str) -> str:
    """The path that a complaint about a file system is about; apt itself names few."""
    if quoted := re.findall(r"'\.?(/[^']+)'", line):
        return str(quoted[-1]).removesuffix(".dpkg-new")
    if named := re.search(r"(?:in|file|directory) (/[^\s:]*[^\s:./])", line):
        return named[1]
    if fetched := re.search(r"Failed to fetch (\S+)", line):
        deb = fetched[1].endswith(".deb")
        return "/var/cache/apt/archives" if deb else "/var/lib/apt/lists"
    return "/var/cache/apt" if line.startswith("E: Write error") else ""


def _read_only(found: Found) -> Trouble:
    return Trouble(
        f"{_place(found[0]) or 'one of its files'} is on a read-only file system",
        "a kernel that met disk errors makes it so (dmesg says); make it writable again "
        f"(mount -o remount,rw), then {AGAIN}",
    )


def _lock(found: Found) -> Trouble:
    path = re.search(r"Could not get lock (/\S+)\. |\((/[^)]+?)/?\)", found.string)
    named = re.search(r"dpkg \w+ lock", found[0])
    what = (path[1] or path[2]) if path else f"the {named[0]}" if named else "a lock of apt"
    holder = "another process"
    if held := re.findall(r"held by process (\d+)(?: \(([^)]+)\))?", found.string):
        holder = f"{held[-1][1] or holder} (pid {held[-1][0]})"
    elif by := re.search(r"locked by (?:another|(\S+)) process with pid (\d+)", found[0]):
        holder = f"{by[1] or holder} (pid {by[2]})"
    return Trouble(
        f"{what} is held by {holder}",
        f"let that end, then {AGAIN}; the file is no leftover: a lock ends with its process",
    )


def _interrupted(_: Found) -> Trouble:
    return Trouble("dpkg was interrupted", f"{AGAIN}: it is repaired as a change")


# --- sources ------------------------------------------------------------------------------------


def _contradiction(found: Found) -> Trouble:
    return Trouble(
        f"two sources for {found[1]} name different keys: {found[2]} and {found[3]}",
        "keep one: grep -r for the address in /etc/apt/sources.list and /etc/apt/sources.list.d",
    )


def _signature(found: Found) -> Trouble:
    return Trouble(*source_says.signature(found[1], found[2]))


def _early(found: Found) -> Trouble:
    reason = f"the host's clock is behind: {found[1]} will be valid in {found[2]}"
    return Trouble(reason, CLOCK)


def _stale(found: Found) -> Trouble:
    return Trouble(
        f"{found[1]} expired {found[2]} ago (Valid-Until)",
        "the mirror is no longer synced: take another one; or the host's clock is ahead "
        "(timedatectl)",
    )


def _download(found: Found) -> Trouble | None:
    told = source_says.download(found[1], found[2])
    return Trouble(*told) if told else None


def _unsigned(found: Found) -> Trouble:
    return Trouble(
        f"{found[1]} is not signed",
        "have it signed, and name its key's fingerprint in the inventory (repository); or switch "
        "the source off",
    )


# --- packages -----------------------------------------------------------------------------------

SCRIPT = r"(\S+) package (\S+) script subprocess returned error exit status (\d+)$"
CLASH = (
    r"processing archive \S*?([^/\s]+?)_\S+ .*\n.*trying to overwrite '([^']+)', "
    r"which is also in package (\S+)"
)
UNMET = r"^ (\S+) : +(.*(?:Depends|PreDepends|Conflicts|Breaks|Recommends): .*)$"


def _damaged(found: Found) -> Trouble:
    return Trouble(
        f"the package {found[1]} is damaged or cut short",
        f"apt-get clean on the host, then {AGAIN}",
    )


def _headers(found: Found) -> Trouble:
    return Trouble(
        f"DKMS finds no headers of kernel {found[1]}{_for(found)}",
        f"install linux-headers-{found[1]}, or remove that kernel, then {AGAIN}",
    )


def _module(found: Found) -> Trouble:
    log = re.search(r"Consult (/\S+make\.log)", found.string)
    return Trouble(
        f"DKMS can't build the module for kernel {found[1]}{_for(found)}",
        f"the compiler's words are on the host in {log[1] if log else '/var/lib/dkms'}",
    )


def _for(found: Found) -> str:
    """Whose script called DKMS: dpkg says it afterwards."""
    script = re.compile(SCRIPT, re.MULTILINE).search(found.string, found.end())
    return f" ({script[1]})" if script else ""


def _script(found: Found) -> Trouble:
    return Trouble(
        f"the {found[2]} script of {found[1]} failed (exit {found[3]})",
        f"what it says stands in the log; mend that, then {AGAIN}: dpkg goes on there",
    )


def _clash(found: Found) -> Trouble:
    return Trouble(
        f"{found[2]} belongs to {found[3]}, and {found[1]} brings it, too",
        f"remove one of the two packages, then {AGAIN}",
    )


def _lost(found: Found) -> Trouble:
    return Trouble(
        f"{found[1]} is installed in part, and no source has it any more",
        "apt-get update, if its source is still there; else give it up: "
        f"dpkg --remove --force-remove-reinstreq {found[1]}",
    )


def _unmet(found: Found) -> Trouble:
    lines = re.findall(UNMET, found.string, re.MULTILINE)
    unmet = "; ".join(f"{name} {' '.join(what.split())}" for name, what in lines[:5])
    return Trouble(
        f"packages do not fit together: {unmet or 'apt does not say which'}",
        "a hold, a pin or a source that lacks them does that: apt-mark showhold; apt-cache "
        "policy NAME",
    )


RULES: tuple[tuple[str, Tell], ...] = (
    (SPACE, _space),
    (r"^.*Read-only file system.*$", _read_only),
    (r"^E: (?:Could not get lock|Unable to acquire|Unable to lock) .*$", _lock),
    (r"^dpkg: error: dpkg \w+ lock was locked by .*$", _lock),
    (r"dpkg was interrupted, you must manually run", _interrupted),
    (r"option Signed-By regarding source (\S+).*: (.+) != (.+)$", _contradiction),
    (r"(?:GPG error|signature verification failed): (.+?) +(?:In)?Release: (.+)$", _signature),
    (r"Release file for (\S+) is not valid yet \(invalid for another (.+?)\)", _early),
    (r"Release file for (\S+) is expired \(invalid since (.+?)\)", _stale),
    (r"^[EW]: Failed to fetch (\S+)  (.+)$", _download),
    (r"^Err:\d+ (\S+).*\n  (.+)$", _download),
    (r"^E: The repository '(.+?) +(?:In)?Release' is not signed", _unsigned),
    (r"'(/[^']+)' is not a Debian format archive", _damaged),
    (r"processing archive (\S+) .*\n.*unexpected end of file", _damaged),
    (r"Your kernel headers for kernel (\S+) cannot be found", _headers),
    (r"Bad return status for module build on kernel: (\S+)", _module),
    (SCRIPT, _script),
    (CLASH, _clash),
    (r"The package (\S+) needs to be reinstalled, but I can't find an archive", _lost),
    (r"unmet dependencies|held broken packages", _unmet),
)
"""Causes before their consequences."""
