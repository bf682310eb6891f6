"""Simulated kmod: modprobe, rmmod, insmod, depmod, lsmod, modinfo."""

from __future__ import annotations

import sys
from pathlib import Path

from . import modules, state

SIZES = {"nvidia": 14381056, "nvidia_uvm": 2162688, "nvidia_modeset": 1638400, "nouveau": 3112960}


def main(argv: list[str]) -> int:
    """Act as the tool that `argv[0]` names."""
    tool = Path(argv[0]).name
    if argv[1:] and argv[1] in ("-V", "--version"):
        sys.stdout.write("kmod version 34 (simulated by the lab host)\n")
        return 0
    try:
        return {
            "modprobe": _modprobe,
            "rmmod": _rmmod,
            "insmod": _insmod,
            "lsmod": _lsmod,
            "modinfo": _modinfo,
            "depmod": _depmod,
        }[tool](argv[1:])
    except modules.RefusedError as refused:
        sys.stderr.write(f"{tool}: {refused}\n")
        return 1


def _depmod(_words: list[str]) -> int:
    return 0


def _internal(name: str) -> str:
    """A module's own name; Debian's nvidia-current is nvidia once it is loaded."""
    return name.replace("-", "_").removesuffix("_current")


def _modprobe(words: list[str]) -> int:
    flags = {word for word in words if word.startswith("-")}
    names = [_internal(word) for word in words if not word.startswith("-") and "=" not in word]
    if flags & {"-c", "--showconfig"}:
        for directive, rest in state.modprobe_lines():
            sys.stdout.write(" ".join([directive, *rest]) + "\n")
        return 0
    if not flags & {"-a", "--all"}:
        names = names[:1]  # the rest are parameters
    if flags & {"-r", "--remove"}:
        return _remove([_internal(word) for word in words if not word.startswith("-")])
    for name in names:
        if not flags & {"-n", "--dry-run", "--show-depends", "-D"}:
            if flags & {"-b", "--use-blacklist"} and state.blacklisted(name):
                continue
            modules.load(name)
    return 0


def _remove(names: list[str]) -> int:
    """What isn't loaded is no error to modprobe, and what nothing needs any more goes, too."""
    for name in names:
        if _fields(name, state.running_kernel()) is None:
            raise modules.RefusedError(f"FATAL: Module {name} not found.")
        if modules.in_use(name):
            raise modules.RefusedError(f"FATAL: Module {name} is in use.")
        if name in state.loaded():
            modules.unload(name)
        if name in state.DEPENDENTS and not modules.in_use("nvidia"):
            _remove(["nvidia"])
    return 0


def _rmmod(words: list[str]) -> int:
    for word in words:
        if not word.startswith("-"):
            modules.unload(_internal(word))
    return 0


def _insmod(words: list[str]) -> int:
    modules.load(_internal(Path(words[0]).name.partition(".ko")[0]))
    return 0


def _lsmod(_words: list[str]) -> int:
    names = state.loaded()
    sys.stdout.write("Module                  Size  Used by\n")
    for name in names:
        users = [user for user in state.DEPENDENTS if name == "nvidia" and user in names]
        row = f"{name:<20} {SIZES.get(name, 131072):>8}  {len(users)} {','.join(users)}"
        sys.stdout.write(row.rstrip() + "\n")
    return 0


def _modinfo(words: list[str]) -> int:
    kernel = state.running_kernel()
    field = ""
    rest = iter(words)
    names: list[str] = []
    for word in rest:
        if word in ("-F", "--field"):
            field = next(rest, "")
        elif word in ("-k", "--set-version"):
            kernel = next(rest, "")
        else:
            names.append(word)
    for name in names:
        fields = _fields(name, kernel)
        if fields is None:
            sys.stderr.write(f"modinfo: ERROR: Module {name} not found.\n")
            return 1
        if field:
            sys.stdout.write(f"{fields[field]}\n" if field in fields else "")
        else:
            sys.stdout.write("".join(f"{key + ':':<16}{fields[key]}\n" for key in fields))
    return 0


def _fields(name: str, kernel: str) -> dict[str, str] | None:
    path = Path(name) if "/" in name else state.module_file(_internal(name), kernel)
    if path is not None and path.is_file():
        return {"filename": str(path), **state.module_info(path)}
    if modules.in_tree(_internal(name)) and kernel in state.kernels():
        file = f"/lib/modules/{kernel}/{modules.IN_TREE[_internal(name)]}"
        return {"filename": file, "license": "GPL", "description": "simulated"}
    return None
