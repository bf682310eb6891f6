"""Lets compilers in: the other end of every gate's socket.

All units wait at their gates. `admission.decide` is asked twice a second and whenever something
happened; what it says is done here: let in, pause, continue, kill. A compiler that was killed, by
us or by the kernel, waits at its gate again with a raised estimate: ninja never sees it.
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wheels.remote import processes, records
from wheels.remote.admission import Room, Running, Unit, decide, pace, retry
from wheels.remote.curve import Curve

TICK = 0.5
"""Seconds between two looks at what the compilers use."""
WORD = 2.0
"""Seconds between two words about the state."""
SAMPLE = 2.0
"""Seconds between two samples of all memory that are kept."""
SAMPLES = 100
"""Of one unit that are kept, if it takes as long as expected."""
PACED = 3
"""Finished units from which the host's pace against the profile's machine is known."""
SETTLED = 1.5
"""Seconds after the last arrival before anybody is let in: ninja starts all gates one by one, and
who goes first is decided among all of them."""
PRESSED = 10.0
"""Percent of the last ten seconds without any progress for want of memory, from which no compiler
but the oldest may grow. systemd-oomd ends whole groups from 60 on (oomd.conf(5)); pauses cost less.
"""
ATTEMPTS = 6
"""Of one unit, before the build gives up."""

Say = Callable[[Mapping[str, Any]], None]


@dataclass
class Peer:
    """One unit at its gate."""

    socket: socket.socket
    unit: Unit | None = None
    command: str = ""
    made: Path = Path()
    heard: bytes = b""
    inside: bool = False
    """Let in, and not out again."""
    session: int | None = None
    """Of its compiler; its gate says it a moment after it was let in."""
    paused: bool = False
    start: float = 0.0
    """Seconds since the epoch, as all times that are kept."""
    used: processes.Usage = field(default_factory=processes.Usage)
    peak: int = 0
    attempts: int = 0
    alone: bool = False
    """Nothing else was inside while it was."""
    curve: list[tuple[float, int]] = field(default_factory=list)
    """CPU seconds, bytes: as it was seen."""

    def running(self, unit: Unit) -> Running:
        """As the decision is told of it."""
        return Running(
            unit=unit,
            elapsed=self.used.cpu / unit.cores,
            now=self.used.memory,
            peak=self.peak,
            paused=self.paused,
        )


class Server:
    """The gate of one build."""

    def __init__(
        self,
        folder: Path,
        order: Mapping[str, Any],
        available: Callable[[], int],
        pressure: Callable[[], float],
        say: Say,
    ) -> None:
        self.room = Room(budget=order["budget"], cores=order["cores"])
        self.declared, self.reserve = order["declared"], order["reserve"]
        self.available, self.pressure = available, pressure
        self.known = {name: _unit(name, data) for name, data in order["units"].items()}
        self.guess = order["guess"]
        self.say = say
        self.records = folder / "units.jsonl"
        self.memory = folder / "memory.jsonl"
        self.earlier = records.read(self.records)
        self.peers: dict[socket.socket, Peer] = {}
        self.done: set[str] = set()
        self.ended: list[tuple[Unit, float]] = []
        """Finished units, and the seconds of CPU per processor that they took."""
        self.trouble = ""
        """Why the build can't succeed, once that is known."""
        self.said: set[str] = set()
        self.begun = time.monotonic()
        self.spoken = self.sampled = -WORD
        self.arrived = 0.0
        """When the last gate came (seconds since the start)."""
        self.path = folder / "gate.sock"
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(1024)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)

    def turn(self) -> None:
        """Hear what there is, look at the memory, decide: half a second at most."""
        for key, _ in self.selector.select(TICK):
            if key.fileobj is self.listener:
                self._welcome()
            else:
                self._hear(self.peers[key.fileobj])  # type: ignore[index]
        self._look()
        self._decide()
        self._speak()

    def close(self) -> None:
        """End what still runs."""
        processes.send(self._sessions(), signal.SIGKILL)
        for peer in self.peers:
            peer.close()
        self.listener.close()
        self.selector.close()
        self.path.unlink(missing_ok=True)

    @property
    def now(self) -> float:
        """Seconds since the build's start."""
        return time.monotonic() - self.begun

    @property
    def _gathering(self) -> bool:
        """Whether gates still come: who waits, and for how long, is not known before."""
        return self.now - self.arrived <= SETTLED

    def _welcome(self) -> None:
        peer, _ = self.listener.accept()
        peer.settimeout(0)
        self.peers[peer] = Peer(socket=peer)
        self.selector.register(peer, selectors.EVENT_READ)

    def _hear(self, peer: Peer) -> None:
        try:
            chunk = peer.socket.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._gone(peer)
            return
        *lines, peer.heard = (peer.heard + chunk).split(b"\n")
        for line in lines:
            self._understand(peer, json.loads(line))

    def _gone(self, peer: Peer) -> None:
        """The gate ended, or was killed: its compiler has no business any more."""
        self.selector.unregister(peer.socket)
        peer.socket.close()
        del self.peers[peer.socket]
        if peer.session is not None:
            processes.send([peer.session], signal.SIGKILL)

    def _answer(self, peer: Peer, **message: object) -> None:
        try:
            peer.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # read as its end by the next turn
            return

    def _understand(self, peer: Peer, message: Mapping[str, Any]) -> None:
        if "unit" in message:
            name = Path(message["unit"]).name
            peer.unit = self.known.get(name) or _unit(name, self.guess)
            peer.command = records.command(message["argv"])
            peer.made = Path(message["cwd"]) / (message["object"] or "")
            self.arrived = self.now
            if records.finished(self.earlier, name, peer.command, peer.made):
                self.done.add(name)
                peer.unit = None
                self._answer(peer, do="done", exit=0)
        elif "session" in message:
            peer.session = message["session"]
        elif "exit" in message and peer.unit:
            self._ended(peer, peer.unit, message)

    def _ended(self, peer: Peer, unit: Unit, message: Mapping[str, Any]) -> None:
        peer.inside, peer.session = False, None
        peer.peak = max(peer.peak, message["largest"])
        ended = message["exit"]
        row = {
            "unit": unit.name,
            "command": peer.command,
            "exit": ended,
            "killed": message["killed"],
            "made": records.made(peer.made) if ended == 0 else None,
            "start": round(peer.start, 2),
            "end": round(time.time(), 2),
            "cpu": message["cpu"],
            "peak": peer.peak,
            "predicted": unit.curve.peak,
            "curve": peer.curve,
        }
        records.append(self.records, row)
        if message["killed"] and self._again(peer, unit):
            return
        if ended == 0:
            self.done.add(unit.name)
            self.ended.append((unit, message["cpu"] / unit.cores))
            if len(self.ended) >= PACED:
                self.room = replace(self.room, pace=pace(self.ended))
        peer.unit = None
        self._answer(peer, do="done", exit=ended)

    def _again(self, peer: Peer, unit: Unit) -> bool:
        """Whether a killed compiler waits at its gate once more."""
        if peer.alone or peer.attempts >= ATTEMPTS:
            why = "with nothing beside it" if peer.alone else f"{peer.attempts} times"
            self.trouble = (
                f"{unit.name} was killed {why}, using {peer.peak / 2**30:.1f} GiB: it needs more "
                f"than the {self.room.budget / 2**30:.1f} GiB that the build may use"
            )
            return False
        peer.unit = retry(peer.running(unit))
        self.say({"event": "again", "unit": unit.name, "peak": peer.peak})
        return True

    def _sessions(self) -> dict[int, Peer]:
        return {peer.session: peer for peer in self.peers.values() if peer.session is not None}

    def _look(self) -> None:
        sessions = self._sessions()
        used = processes.usage(sessions)
        for session, peer in sessions.items():
            peer.used = used[session]
            peer.peak = max(peer.peak, peer.used.memory)
            expected = peer.unit.curve.duration if peer.unit else 0.0
            if not peer.curve or peer.used.cpu - peer.curve[-1][0] >= expected / SAMPLES:
                peer.curve.append((round(peer.used.cpu, 1), peer.used.memory))
        if self.now - self.sampled >= SAMPLE:
            self.sampled = self.now
            together = sum(one.memory for one in used.values())
            row = {"at": round(time.time(), 1), "used": together, "running": len(sessions)}
            records.append(self.memory, row)

    def _decide(self) -> None:
        peers = {unit.name: (peer, unit) for peer in self.peers.values() if (unit := peer.unit)}
        decision = decide(
            [unit for peer, unit in peers.values() if not peer.inside],
            [peer.running(unit) for peer, unit in peers.values() if peer.inside],
            self.room,
            self._available(),
            pressed=self._pressed(),
        )
        for names, number in (
            (decision.pause, signal.SIGSTOP),
            (decision.resume, signal.SIGCONT),
            (decision.kill, signal.SIGKILL),
        ):
            self._send([peers[name][0] for name in names], number)
        if not self._gathering:
            for name in decision.start:
                self._let_in(peers[name][0])
        among = [peer for peer in self.peers.values() if peer.inside]
        for one in among:
            one.alone = one.alone and len(among) == 1
        for line in decision.say:
            self._tell(line)

    def _available(self) -> int | None:
        """Bytes that the host could still give; where a budget was declared, that alone counts."""
        return None if self.declared else self.available() - self.reserve

    def _pressed(self) -> bool:
        """Whether the host gives memory only by taking it from somebody who needs it."""
        pressed = not self.declared and self.pressure() >= PRESSED
        if pressed:
            self._tell("the host is short of memory: only the oldest compiler may take more")
        return pressed

    def _tell(self, line: str) -> None:
        if line not in self.said:
            self.said.add(line)
            self.say({"event": "says", "line": line})

    def _send(self, peers: list[Peer], number: signal.Signals) -> None:
        processes.send([one.session for one in peers if one.session is not None], number)
        for one in peers:
            one.paused = number is signal.SIGSTOP and one.session is not None

    def _let_in(self, peer: Peer) -> None:
        peer.inside, peer.alone, peer.start = True, True, time.time()
        peer.used, peer.peak, peer.curve = processes.Usage(), 0, []
        peer.attempts += 1
        self._answer(peer, do="compile")

    def _speak(self) -> None:
        if self.now - self.spoken < WORD or self._gathering:
            return
        self.spoken = self.now
        inside = [peer for peer in self.peers.values() if peer.inside]
        units = [(peer, unit) for peer in self.peers.values() if (unit := peer.unit)]
        anew = self.done.union(unit.name for _, unit in units)
        earlier = {row["unit"] for row in self.earlier if row["exit"] == 0} - anew
        if earlier:
            self._tell(f"units that were compiled before, and are not again: {len(earlier)}")
        waiting = [unit.curve.duration for peer, unit in units if not peer.inside]
        rest = [
            max(0.0, unit.curve.duration - peer.used.cpu / unit.cores / self.room.pace)
            for peer, unit in units
            if peer.inside
        ]
        seconds = max([sum([*waiting, *rest]) / self.room.cores, *waiting, *rest], default=0.0)
        seconds *= self.room.pace
        self.say(
            {
                "event": "state",
                "done": len(self.done),
                "running": len(inside),
                "paused": sum(peer.paused for peer in inside),
                "waiting": len(waiting),
                "used": sum(peer.used.memory for peer in inside),
                "budget": self.room.budget,
                "left": round(seconds),
            }
        )


def _unit(name: str, data: Mapping[str, Any]) -> Unit:
    return Unit(name, Curve.from_json(data["curve"]), data["cores"])
