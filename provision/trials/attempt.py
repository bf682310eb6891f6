"""Has a host's GPUs work."""

from __future__ import annotations

from provision import wire
from provision.checks import active
from provision.errors import ProvisionError
from provision.facts import Facts, WrongFacts
from provision.facts.trials import Trials, parse
from provision.resources.environment import python_with
from provision.target import Target


def attempt(target: Target, facts: Facts, python: str = "") -> Trials:
    """All trials, by the interpreter named or the first environment's that has torch.

    Raises ProvisionError where somebody uses the GPUs, or nothing there has torch.
    """
    name = target.host.name
    if users := active.busy(facts):
        raise ProvisionError(
            f"{name}: GPUs are in use by {', '.join(users)}, and active checks would disturb that",
            hint="stop it first, or verify without --active",
        )
    chosen = python or python_with(facts, "torch")
    if not chosen:
        raise ProvisionError(
            f"{name}: no environment there has torch", hint="name an interpreter: --python PATH"
        )
    try:
        return parse(wire.attempt(target.transport, chosen))
    except WrongFacts as error:
        raise ProvisionError(f"{name}: {error.what}") from error
