"""A lab host that nothing runs any more is not waited for as long as one of metal."""

from types import SimpleNamespace

import pytest
from samples import WANT

from provision import follow, inventory, lab
from provision.errors import ProvisionError, TransportError
from provision.stop import Stop
from provision.target import Target

DEADLINE = 1200.0


class Away:
    """A host that does not answer."""

    def run(self, argv, stdin, *, deadline, root=False):
        raise TransportError("h: can't be reached")

    def close(self):
        pass


@pytest.fixture
def awaited(clock, monkeypatch):
    """How it ends to wait for a host of this kind, and after how many seconds."""

    def call(there, **fields):
        text = "default: h\nhosts:\n  h: {stack: lab, lab: {}}\n"
        host = inventory.parse(text, "inventory.yaml").hosts["h"].model_copy(update=fields)
        monkeypatch.setattr(lab, "find", lambda name: there)
        target = Target(host=host, want=WANT, transport=Away())
        watch = follow.Watch(target=target, tell=lambda event: None, stop=Stop())
        with pytest.raises(ProvisionError) as caught:
            follow.reach(watch, DEADLINE)
        return caught.value, clock.now

    return call


@pytest.mark.parametrize("there", [SimpleNamespace(running=False), None], ids=["down", "discarded"])
def test_it_is_told_that_it_is_gone_and_what_boots_it(awaited, there):
    error, seconds = awaited(there)
    assert error.what == "h: the lab host is gone: what runs it was stopped or killed"
    assert "invoke provision --host h boots it again" in error.hint
    assert seconds < 2 * follow.PATIENCE


@pytest.mark.parametrize(
    ("there", "fields"),
    [(SimpleNamespace(running=True), {}), (None, {"lab": None})],
    ids=["it reboots", "it is no lab host"],
)
def test_others_are_waited_for_to_the_end(awaited, there, fields):
    error, seconds = awaited(there, **fields)
    assert isinstance(error, TransportError)
    assert seconds > DEADLINE
