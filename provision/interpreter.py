"""Which Python an environment is made with: the system's, or one that uv fetches. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from provision.facts import Os
from provision.stack import Environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """One Python, as far as it is known before it is there."""

    name: str
    """As the manifests of releases have it: 3.11.2, or uv's 3.13."""
    version: str
    """By which rows of a lock and wheels are chosen."""
    managed: str = ""
    """The minor version that uv is asked for; '' for the system's."""
    reason: str
    """Why it is this one."""


def interpreter(environment: Environment, os: Os) -> Interpreter:
    """The stack's choice on a host."""
    reason = "the system's, as the stack says: its headers are packages, nothing is fetched"
    version = os.python.version
    return managed(environment) or Interpreter(name=version, version=version, reason=reason)


def managed(environment: Environment) -> Interpreter | None:
    """The Python that uv is to fetch: the newest that the environment is locked for.

    Which patch that is, the version of uv says. None where the stack wants the system's.
    """
    if environment.interpreter == "system":
        return None
    newest = environment.pythons[-1]
    minor = newest.rpartition(".")[0]
    reason = "uv's, as the stack says: with headers of its own, from uv's download site"
    return Interpreter(name=f"uv's {minor}", version=newest, managed=minor, reason=reason)
