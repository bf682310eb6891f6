"""Has a host's GPUs work."""

from __future__ import annotations

from provision import wire
from provision.checks import active
from provision.errors import ProvisionError, UsageError
from provision.facts import Absent, Facts, Unknown, WrongFacts
from provision.facts.trials import Trials, parse
from provision.resources.environment import python_with
from provision.target import Target

HINT = "name an interpreter there that has torch: --python PATH"


def attempt(target: Target, facts: Facts, python: str = "") -> Trials | Unknown:
    """All trials, by the interpreter named or the first environment's that has torch.

    Unknown where the GPUs do not answer, somebody uses them, or no environment has torch. Raises
    UsageError where the interpreter named is none or has no torch, ProvisionError where the trials
    fail as a whole.
    """
    name = target.host.name
    if isinstance(facts.gpus, Unknown):  # GPUs that hang are not asked for more
        return Unknown(f"{name}: its GPUs can't be looked at: {facts.gpus.reason}")
    if users := active.busy(facts):
        return Unknown(
            f"{name}: GPUs are in use by {', '.join(users)}, and active checks would disturb that; "
            "stop it first, or verify without --active"
        )
    chosen = python or python_with(facts, "torch")
    if not chosen:
        return Unknown(f"{name}: no environment there has torch; {HINT}")
    try:
        trials = parse(wire.attempt(target.transport, chosen))
    except WrongFacts as error:
        raise ProvisionError(f"{name}: {error.what}") from error
    if isinstance(trials.kernel, Absent):  # it needs an interpreter and torch, and nothing else
        fault = UsageError if python else ProvisionError
        raise fault(f"{name}: {trials.kernel.reason}", hint=HINT)
    return trials


def untried(error: ProvisionError) -> Unknown:
    """An error as the reason of a finding, which stands among the others."""
    return Unknown(f"{error.what}; {error.hint}" if error.hint else error.what)
