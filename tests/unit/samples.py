"""What stands in several tests: a finished host's facts, what is wanted of it, a run's events."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import pytest

from provision import facts, planner, stack, wire
from provision.errors import TransportError
from provision.inventory import Gpus
from provision.promises import merge
from provision.resources.known import NotKnown
from provision.transport import Cost, Result
from provision.want import Want

CAPTURES = Path(__file__).parent / "captures"
MODEL = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
REPOSITORY = stack.Repository(
    url="http://deb.example/cuda/debian12", fingerprint="685771FB645A3AA402ADB97C09D34A4D3B14C1AA"
)
WANT = Want(
    stack=stack.load("lab"),
    uv=stack.load_uv(),
    gpus=Gpus(count=2, model=MODEL),
    repository=REPOSITORY,
)
DRIVER = WANT.stack.system.driver.version


def with_driver(version, want=WANT):
    """The want with another driver."""
    system = want.stack.system
    moved = system.driver.model_copy(update={"version": version})
    stack_ = want.stack.model_copy(update={"system": system.model_copy(update={"driver": moved})})
    return dataclasses.replace(want, stack=stack_)


TIMEOUT = {"status": "timeout", "reason": "no answer within 30 s"}
ABSENT = {"status": "absent"}


def capture(name):
    """A recorded output, as text."""
    return (CAPTURES / name).read_text()


RECORDED = json.loads(capture("facts-finished.json"))
KERNEL = RECORDED["facts"]["boot"]["value"]["kernel"]
BOOT = RECORDED["facts"]["boot"]["value"]["id"]


@cache
def settled():
    """The recorded host, brought to what is wanted today."""
    raw = RECORDED
    for one in planner.plan("h", WANT, raw).rounds:
        assert one.actionable
        raw = merge(raw, *(change.makes for change in one.changes))
    return raw


def raw(*promises, **answers):
    """The finished host's JSON; with what differs, or with other answers."""
    found = merge(settled(), *promises)
    found["facts"].update(answers)
    return found


def seen(*promises, **answers):
    """The finished host's facts; with what differs, or with other answers."""
    return facts.parse(raw(*promises, **answers))


def planned(resource, *promises, want=WANT, **answers):
    """What a resource would change of the finished host, with what differs."""
    return resource.plan(want, seen(*promises, **answers))


def refused(resource, *promises, want=WANT, **answers):
    """Why a resource can't plan."""
    with pytest.raises(NotKnown) as caught:
        planned(resource, *promises, want=want, **answers)
    return caught.value


def probed(*promises, run=None, **answers):
    """What the probe of such a host prints."""
    found = raw(*promises, **answers)
    if run:
        value = {"run": run, "who": "them@there", "since": 0.0}
        found["facts"]["run"] = {"status": "ok", "value": value}
    del found["facts"]["simulations"]
    return json.dumps(found)


def installed(name, version, status="installed", **marks):
    """The promise of one package."""
    package = {"version": version, "status": status, "hold": False, "auto": False, **marks}
    return {"dpkg": {"packages": {name: package}}}


def apt_answer(**said):
    """What apt says of a transaction that nothing hinders; with what differs."""
    nothing = {"install": {}, "remove": {}, "download": 0, "installs": 0}
    return {**nothing, "error": None, "hint": "", **said}


def accepted(name, value):
    """The fact that the controller makes of a collector's value after its way over the wire."""
    wire = json.dumps({"schema": 1, "facts": {name: {"status": "ok", "value": value}}})
    return getattr(facts.parse(json.loads(wire)), name)


# --- a run on a host ---------------------------------------------------------------------------

START = {"event": "start", "who": "me", "changes": ["a"]}
CHANGE = {"event": "change", "id": "a"}
DONE = {"event": "done", "id": "a", "seconds": 0.1}
FAILED = {"event": "failed", "id": "a", "reason": "sh exits 1", "hint": "", "log": ["$ sh", "oops"]}
END = {"event": "end", "result": "done", "reboot": False}
REBOOT = {"event": "end", "result": "done", "reboot": True}
BAD_END = {"event": "end", "result": "failed", "reboot": False}
STALE = {"event": "end", "result": "stale", "reboot": False}
CANCELLED = {"event": "cancelled", "by": "them@there", "before": "b"}
CANCELLED_END = {"event": "end", "result": "cancelled", "reboot": False}
ALIVE = {"event": "alive"}
WHOLE_RUN = (START, CHANGE, DONE, END)


def output(line):
    """A line that a command of a run printed."""
    return {"event": "output", "line": line}


def events(*said, run="r1", lines=0):
    """A followed run's lines, after those of its output that are known."""
    first = {"event": "following", "run": run, "lines": lines}
    return [json.dumps(event) for event in (first, *({"run": run, **one} for one in said))]


def cut(*said, run="r1", lines=0):
    """A followed run's lines, behind the last of which the connection breaks."""
    return [*events(*said, run=run, lines=lines), TransportError("h: the connection broke")]


def frames(data):
    """What is sent to a host behind the mark, frame by frame."""
    assert data.startswith(wire.MARK)
    data = data.removeprefix(wire.MARK)
    found = []
    while data:
        length, data = int.from_bytes(data[:8], "big"), data[8:]
        found.append(data[:length])
        data = data[length:]
    return found


class Says:
    """A host that gives one answer to everything."""

    host = "h"

    def __init__(self, out="", *, code=0, err=""):
        self.cost = Cost()
        self.result = Result(exit=code, out=out, err=err)
        self.stdin = b""

    def run(self, argv, stdin, *, deadline, root=False):
        self.stdin = stdin
        return self.result

    def follow(self, argv, stdin, *, silence):
        self.stdin = stdin
        return iter(self.result.out.splitlines())
