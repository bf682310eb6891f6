"""The keys that sign the lab's repositories: made on first use, one for each signer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from provision.lab.store import lab_dir, private_dir, run

BATCH = ("gpg", "--batch", "--quiet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    """A signing key that is ready; `public` is its binary public part."""

    home: Path
    fingerprint: str
    public: bytes

    def sign(self, release: Path) -> None:
        """Write InRelease and Release.gpg beside a Release file."""
        sign = [*BATCH, "--yes", "--digest-algo", "SHA512", "--armor", "--output"]
        for name, mode in (("InRelease", "--clearsign"), ("Release.gpg", "--detach-sign")):
            argv = [*sign, release.with_name(name), mode, release]
            run(argv, what="signing the repository", env=_env(self.home))


@contextmanager
def signer(folder: str, owner: str) -> Iterator[Signer]:
    """The key kept in `folder`; no gpg-agent stays behind."""
    home = private_dir(lab_dir() / folder)
    try:
        yield _signer(home, owner)
    finally:
        run(["gpgconf", "--kill", "gpg-agent"], what="stopping gpg-agent", env=_env(home))


def _signer(home: Path, owner: str) -> Signer:
    public = home / "public.gpg"
    if not public.exists():
        make = ["--passphrase", "", "--quick-gen-key", f"{owner} (simulated) <lab@example.invalid>"]
        for leftover in home.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        run([*BATCH, *make, "ed25519", "sign", "never"], what="making a key", env=_env(home))
        half = home / "public.half"
        run([*BATCH, "--output", half, "--export"], what="exporting the key", env=_env(home))
        half.rename(public)
    listing = run(
        ["gpg", "--batch", "--with-colons", "--list-keys"], what="reading the key", env=_env(home)
    )
    fingerprint = next(
        line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:")
    )
    return Signer(home=home, fingerprint=fingerprint, public=public.read_bytes())


def _env(home: Path) -> dict[str, str]:
    return {**os.environ, "GNUPGHOME": str(home)}
