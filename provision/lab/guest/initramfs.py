"""Simulated update-initramfs and lsinitramfs: an image is the list of what it would hold."""

from __future__ import annotations

import sys
from pathlib import Path

from . import state
from .modules import IN_TREE


def main(argv: list[str]) -> int:
    """Act as the tool that `argv[0]` names."""
    if Path(argv[0]).name == "lsinitramfs":
        return _list([word for word in argv[1:] if not word.startswith("-")])
    kernel = ""
    words = iter(argv[1:])
    for word in words:
        if word.startswith("-k"):
            kernel = word[2:] or next(words, "")
    known = state.kernels()
    for each in known if kernel == "all" else [kernel or known[-1]]:
        generate(each)
        sys.stdout.write(f"update-initramfs: Generating /boot/initrd.img-{each}\n")
    return 0


def image(kernel: str) -> Path:
    """Where a kernel's image lies."""
    return Path("/boot") / f"initrd.img-{kernel}"


def generate(kernel: str) -> None:
    """Write a kernel's image from the configuration and modules there are now."""
    held = [str(path).lstrip("/") for path in sorted(Path("/etc/modprobe.d").glob("*.conf"))]
    folder = f"usr/lib/modules/{kernel}"
    lists = {"nouveau": True, "nova_core": state.hardware()["nova_core"]}
    held += [
        f"{folder}/{IN_TREE[name]}"
        for name in IN_TREE
        if lists[name] and not state.blacklisted(name)
    ]
    image(kernel).write_text(
        "simulated initramfs\n" + "".join(f"{path}\n" for path in held), encoding="utf-8"
    )


def _list(paths: list[str]) -> int:
    for path in paths:
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            sys.stderr.write(f"lsinitramfs: {error}\n")
            return 1
        sys.stdout.write("".join(f"{line}\n" for line in lines[1:]))
    return 0
