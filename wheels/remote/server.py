"""Decides which compilers run: the other end of every gate's socket.

All units wait at their gates; `admission.decide` is asked whenever something happened, and twice a
second. What it says is done here: let in, stop, continue, kill. A killed compiler is run again
with a raised estimate, so that ninja never sees it.
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wheels.remote import processes, records
from wheels.remote.admission import Room, Running, Unit, decide
from wheels.remote.curve import Curve

TICK = 0.5
"""Seconds between two looks at what the compilers use."""
SAID = 2.0
"""Seconds between two words about the state."""
SAMPLE = 2.0
"""Seconds between two samples of a unit's memory that are kept."""
RAISE = 1.25
"""By how much the estimate of a compiler that was killed is raised at least."""
ATTEMPTS = 6
"""Of one unit, before the build gives up."""


@dataclass
class Peer:
    """One unit at its gate."""

    peer: socket.socket
    name: str
    command: str
    object_: Path
    heard: bytes = b""
    session: int | None = None
    """Of its compiler, while that runs."""
    started: float = 0.0
    stopped: float | None = None
    """Since when it is paused."""
    pauses: float = 0.0
    """Seconds."""
    now: int = 0
    peak: int = 0
    """Bytes."""
    factor: float = 1.0
    attempts: int = 0
    alone: bool = False
    """Nothing else ran when it was killed."""
    samples: list[tuple[float, int]] = field(default_factory=list)

    def active(self, at: float) -> float:
        """Seconds that the compiler has run, pauses left out."""
        return (self.stopped or at) - self.started - self.pauses


class Server:
    """One build's gate."""

    def __init__(
        self,
        folder: Path,
        order: Mapping[str, Any],
        available: Callable[[], int],
        say: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.room = Room(budget=order["budget"], cores=order["cores"])
        self.known = {name: Curve.from_data(data) for name, data in order["units"].items()}
        self.guess = Curve.from_data(order["guess"])
        self.total = max(len(self.known), 1)
        self.declared: bool = order["declared"]
        self.reserve: int = order["reserve"]
        self.available = available
        self.say = say
        self.journal = folder / "units.jsonl"
        self.memory = folder / "memory.jsonl"
        self.earlier = records.read(self.journal)
        self.done: set[str] = set()
        self.peers: list[Peer] = []
        self.trouble = ""
        """Why the build can't succeed, once that is known."""
        self.begun = time.monotonic()
        self.spoken = self.sampled = 0.0
        self.highest = 0
        path = folder / "gate.sock"
        path.unlink(missing_ok=True)
        self.path = str(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(1024)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)

    def turn(self) -> None:
        """Hear what there is, look at the memory, and decide: half a second at most."""
        for key, _ in self.selector.select(TICK):
            if key.fileobj is self.listener:
                self._accept()
            else:
                self._hear(key.data)
        self._look()
        self._decide()
        self._speak()

    def close(self) -> None:
        """End what still runs."""
        processes.signal_all(self._sessions(), signal.SIGKILL)
        for peer in self.peers:
            peer.peer.close()
        self.listener.close()
        self.selector.close()
        Path(self.path).unlink(missing_ok=True)

    def _accept(self) -> None:
        peer, _ = self.listener.accept()
        peer.setblocking(False)
        one = Peer(peer=peer, name="", command="", object_=Path())
        self.peers.append(one)
        self.selector.register(peer, selectors.EVENT_READ, one)

    def _hear(self, peer: Peer) -> None:
        try:
            chunk = peer.peer.recv(1 << 20)
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
        """The gate ended or was killed: its compiler has no business any more."""
        self.selector.unregister(peer.peer)
        peer.peer.close()
        self.peers.remove(peer)
        if peer.session is not None:
            processes.signal_all([peer.session], signal.SIGKILL)

    def _understand(self, peer: Peer, message: Mapping[str, Any]) -> None:
        if "unit" in message:
            peer.name = Path(message["unit"]).name
            peer.command = records.command(message["argv"])
            peer.object_ = Path(message["cwd"]) / (message["object"] or "")
            if records.finished(self.earlier, peer.name, peer.command, peer.object_):
                self.done.add(peer.name)
                self._answer(peer, {"do": "done", "exit": 0})
        elif "session" in message:
            peer.session = message["session"]
        elif "exit" in message:
            self._ended(peer, message)

    def _ended(self, peer: Peer, message: Mapping[str, Any]) -> None:
        at = time.monotonic()
        peer.peak = max(peer.peak, message["largest"])
        records.append(
            self.journal,
            {
                "unit": peer.name,
                "command": peer.command,
                "exit": message["exit"],
                "killed": message["killed"],
                "made": records.made(peer.object_) if message["exit"] == 0 else None,
                "start": round(peer.started - self.begun, 2),
                "seconds": round(peer.active(at), 2),
                "paused": round(peer.pauses, 2),
                "cpu": message["cpu"],
                "peak": peer.peak,
                "curve": peer.samples,
            },
        )
        peer.session = None
        if message["killed"] and self._again(peer):
            return
        if message["exit"] == 0:
            self.done.add(peer.name)
        self._answer(peer, {"do": "done", "exit": message["exit"]})

    def _again(self, peer: Peer) -> bool:
        """Whether a killed compiler waits at its gate once more."""
        if peer.alone or peer.attempts >= ATTEMPTS:
            self.trouble = (
                f"{peer.name} was killed {peer.attempts} times, at last with "
                f"{peer.peak / 2**30:.1f} GiB in use"
                + (" and nothing beside it: it needs more memory" if peer.alone else "")
            )
            return False
        predicted = self._curve(peer).peak
        peer.factor *= max(RAISE, peer.peak / predicted if predicted else RAISE)
        self.say({"event": "again", "unit": peer.name, "attempt": peer.attempts})
        return True

    def _curve(self, peer: Peer) -> Curve:
        return self.known.get(peer.name, self.guess).scaled(memory=peer.factor)

    def _sessions(self) -> dict[int, Peer]:
        return {peer.session: peer for peer in self.peers if peer.session is not None}

    def _look(self) -> None:
        at = time.monotonic()
        sessions = self._sessions()
        used = processes.resident(sessions)
        for session, peer in sessions.items():
            peer.now = used[session]
            peer.peak = max(peer.peak, peer.now)
            active = peer.active(at)
            if not peer.samples or active - peer.samples[-1][0] >= SAMPLE:
                peer.samples.append((round(active, 1), peer.now))
        together = sum(used.values())
        self.highest = max(self.highest, together)
        if at - self.sampled >= SAMPLE:
            self.sampled = at
            row = {"at": round(at - self.begun, 1), "used": together, "running": len(sessions)}
            records.append(self.memory, row)

    def _decide(self) -> None:
        at = time.monotonic()
        # One that was let in and has not said its session yet is as good as running.
        running = {peer.name: peer for peer in self.peers if peer.attempts and self._in(peer)}
        waiting = {peer.name: peer for peer in self.peers if peer.name and not self._in(peer)}
        decision = decide(
            [Unit(name, self._curve(peer)) for name, peer in waiting.items()],
            [
                Running(
                    unit=Unit(name, self._curve(peer)),
                    elapsed=peer.active(at),
                    paused=peer.stopped is not None,
                    now=peer.now,
                    peak=peer.peak,
                )
                for name, peer in running.items()
            ],
            self.room,
            None if self.declared else max(0, self.available() - self.reserve),
        )
        for name in decision.kill:
            running[name].alone = False
            self._continue(running[name], at)
            self._signal(running[name], signal.SIGKILL)
        for name in decision.pause:
            running[name].stopped = at
            self._signal(running[name], signal.SIGSTOP)
        for name in decision.resume:
            self._continue(running[name], at)
            self._signal(running[name], signal.SIGCONT)
        for name in decision.start:
            self._let_in(waiting[name], at, alone=not running)
        for line in decision.say:
            self.say({"event": "says", "line": line})

    def _in(self, peer: Peer) -> bool:
        return peer.let_in
