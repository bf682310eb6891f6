"""The users of every lab host; the lab's client key opens all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

from provision.lab.store import run

SUDO_PASSWORD = "simulated"  # noqa: S105 - guards nothing: lab hosts listen on loopback
"""What sudo asks the user `admin` for."""

SUDOERS = {
    "operator": "operator ALL=(ALL:ALL) NOPASSWD: ALL\n",
    "admin": "admin ALL=(ALL:ALL) ALL\n",
    "tty": "Defaults:tty requiretty\ntty ALL=(ALL:ALL) NOPASSWD: ALL\n",
}
"""User → what sudo lets it do."""

ADD = f"""set -e
for user in {" ".join(SUDOERS)}; do
    id "$user" >/dev/null 2>&1 ||
        useradd --create-home --shell /bin/bash --no-user-group --gid users "$user"
done
echo 'admin:{SUDO_PASSWORD}' | chpasswd
"""


def add(root: Path, public_key: str) -> None:
    """Make the users in a mounted root, where they are missing, and open them to the key."""
    run(["chroot", root, "/bin/sh", "-c", ADD], what="making the users")
    for user, rules in SUDOERS.items():
        path = root / "etc/sudoers.d" / f"lab-{user}"
        path.unlink(missing_ok=True)
        path.write_text(rules, encoding="utf-8")
        path.chmod(0o440)
        authorize(root / "home" / user, public_key)
    authorize(root / "root", public_key)


def authorize(home: Path, public_key: str) -> None:
    """Let the key into the account with this home folder."""
    folder = home / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    authorized = folder / "authorized_keys"
    authorized.write_text(public_key, encoding="utf-8")
    authorized.chmod(0o600)
    owner = home.stat()
    for path in (folder, authorized):
        shutil.chown(path, owner.st_uid, owner.st_gid)
