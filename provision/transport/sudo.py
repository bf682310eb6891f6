"""How a user who is not root gets root: sudo, its password asked for once, given on stdin."""

from __future__ import annotations

import getpass
import os
import sys
import threading

from provision.errors import AccessError

VARIABLE = "FIRSTLIGHT_SUDO_PASSWORD"
"""Environment variable with the password, for runs at which nobody sits."""

_once = threading.Lock()
_answers: list[str] = []


def password(host: str) -> str:
    """The password, from the environment or asked for; once for all hosts of this run.

    Raises AccessError where nobody can be asked.
    """
    with _once:
        if _answers:
            return _answers[0]
        answer = os.environ.get(VARIABLE)
        if answer is None and sys.stdin.isatty():
            answer = getpass.getpass("sudo password (for all hosts of this run): ")
        if answer is None:
            raise AccessError(
                f"{host}: sudo asks for a password, and nobody is here to give it",
                hint=f"run it at a terminal, set {VARIABLE}, or allow this user sudo without one",
            )
        _answers.append(answer)
        return answer


def refused(host: str, user: str) -> AccessError:
    """What to say of a password that sudo did not take."""
    return AccessError(
        f"{host}: sudo refuses the password of {user}",
        hint="try it on the host: sudo -k; sudo true",
    )


def wants_password(said: str) -> bool:
    """sudo -n could not go on without one."""
    return "a password is required" in said


def refuses_password(said: str) -> bool:
    """It was given, and it was wrong."""
    return "incorrect password attempt" in said or "Sorry, try again" in said


def wants_terminal(said: str) -> bool:
    """sudoers has requiretty for this user."""
    return "you must have a tty" in said
