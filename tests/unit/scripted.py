"""A host that answers from a script, and the loop against it."""

import pytest
from samples import WANT

from provision import engine, inventory
from provision.stop import Stop
from provision.target import Target
from provision.transport.recorded import Recorded

HOST = inventory.Host(name="h", where="inventory.yaml:3", address="h", stack="lab")
PROBE, SIMULATE, APPLY, CANCEL = (
    f'"do": "{do}"' for do in ("probe", "simulate", "apply", "cancel")
)
"""What a request of each kind has in it."""


class Outcome:
    """What became of a host: its last look, what was told, what it cost."""

    def __init__(self, *script):
        self.host = Recorded("h", list(script))
        self.target = Target(host=HOST, want=WANT, transport=self.host)
        self.told = []
        self.stop = Stop()

    def provision(self):
        self.look = engine.provision(self.target, self.told.append, self.stop)
        assert self.host.script == []
        return self

    def fail(self, error=engine.NotConverged):
        with pytest.raises(error) as caught:
            engine.provision(self.target, self.told.append, self.stop)
        assert self.host.script == []
        return caught.value

    @property
    def words(self):
        return [event["event"] for event in self.told]

    @property
    def cost(self):
        return (self.host.cost.sessions, self.host.cost.execs)
