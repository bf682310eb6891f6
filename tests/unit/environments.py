"""An environment in several tests: what is wanted of it, and how a host's differs."""

import dataclasses

from samples import WANT

from provision.wheelhouse import Manifest

LOCK = WANT.stack.locks["main"]
LOCKED = LOCK.versions("3.11.2")
HASH = LOCK.sha256[:12]
NUMPY = LOCKED["numpy"]
ROOT = "/opt/firstlight/environments/main"
SHA = "a" * 64
EXTENSION = Manifest(
    file="extension-1.0+numpy2.2-cp311-cp311-linux_x86_64.whl",
    sha256=SHA,
    size=1,
    requires=(f"numpy=={NUMPY}",),
    archs=("12.0",),
    glibc="2.34",
)


def there(**fields):
    """The promise of what differs in the environment."""
    return {"environments": {"main": fields}}


def at(minute):
    return f"2026-11-30T06:{minute:02}:00.000Z"


def wanting(*wheels, built=(EXTENSION,)):
    """The want with an environment that such wheels join, once they are built."""
    main = WANT.stack.environment["main"].model_copy(update={"wheels": wheels})
    wanted = WANT.stack.model_copy(update={"environment": {"main": main}})
    return dataclasses.replace(WANT, stack=wanted, wheelhouse=built)


def kinds(change):
    return [type(action) for action in change.actions]
