"""A TCP proxy that makes loopback far away, and counts what goes through it.

Every chunk is stamped with the time it is due and written when that comes: a delay shifts
traffic, it does not throttle it. A connection costs what it costs on a wire, three half round
trips until the server sees it. Bandwidth, loss and slow start are not simulated, and TCP's
acknowledgements come from the proxy: what waits for one (Nagle's algorithm) waits at most the
40 ms of a delayed acknowledgement, where on a wire it would wait for the other end.

    python -m benchmarks.delay --to 2200 --port 2222 --rtt 80
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console

CHUNK = 1 << 16
LOOPBACK = "127.0.0.1"
START_SECONDS = 5.0

Queue = asyncio.Queue[tuple[float, bytes]]
"""When a chunk is due (seconds of the loop's clock), and the chunk; b'' ends the stream."""


@dataclass(slots=True)
class Count:
    """What went through; bytes as TCP carries them."""

    connections: int = 0
    up: int = 0
    """Bytes from client to host."""
    down: int = 0
    """Bytes from host to client."""
    answers: int = 0
    """Times that the direction changed from up to down: each is a wait for the host."""

    @property
    def round_trips(self) -> int:
        """The answers waited for, and every connection's own handshake."""
        return self.answers + self.connections

    def __add__(self, other: Count) -> Count:
        return Count(
            self.connections + other.connections,
            self.up + other.up,
            self.down + other.down,
            self.answers + other.answers,
        )


class Relay:
    """One port in front of one server on this machine."""

    def __init__(self, server: int) -> None:
        self.rtt = 0.0
        """Seconds; holds for what arrives from now on."""
        self.count = Count()
        self.port = 0
        """Where it listens, once started."""
        self._server = server
        self._listener: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> None:
        """Listen; port 0 is any free one."""
        self._listener = await asyncio.start_server(self._accepted, LOOPBACK, port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        if self._listener:
            self._listener.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._connection(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = _counter(self.count)
        up, down = Queue(), Queue()
        now = asyncio.get_running_loop().time
        arrival = now() + 1.5 * self.rtt  # SYN, its answer, and what the client says first
        receiving = asyncio.create_task(
            self._receive(reader, up, lambda size: passed("up", size), not_before=arrival)
        )
        try:
            await asyncio.sleep(arrival - now())
            there, back = await asyncio.open_connection(LOOPBACK, self._server)
            with contextlib.closing(back):
                await asyncio.gather(
                    receiving,
                    self._receive(there, down, lambda size: passed("down", size)),
                    _send(up, back),
                    _send(down, writer),
                )
        except OSError:
            pass  # the client sees the connection end, as it would without a proxy
        finally:
            receiving.cancel()
            writer.close()

    async def _receive(
        self,
        reader: asyncio.StreamReader,
        queue: Queue,
        passed: Callable[[int], None],
        *,
        not_before: float = 0.0,
    ) -> None:
        now = asyncio.get_running_loop().time
        chunk = b"-"
        while chunk:
            try:
                chunk = await reader.read(CHUNK)
            except OSError:
                chunk = b""
            if chunk:
                passed(len(chunk))
            queue.put_nowait((max(now() + self.rtt / 2, not_before), chunk))


async def _send(queue: Queue, writer: asyncio.StreamWriter) -> None:
    now = asyncio.get_running_loop().time
    while True:
        due, chunk = await queue.get()
        if (wait := due - now()) > 0:
            await asyncio.sleep(wait)
        if not chunk:
            if writer.can_write_eof():
                writer.write_eof()
            return
        writer.write(chunk)


def _counter(count: Count) -> Callable[[str, int], None]:
    """Counts one connection's chunks in the order in which they arrive here."""
    count.connections += 1
    last = ""

    def passed(direction: str, size: int) -> None:
        nonlocal last
        if direction == "up":
            count.up += size
        else:
            count.down += size
            count.answers += last == "up"
        last = direction

    return passed


class Relays:
    """Relays in a thread with an event loop of its own, all at one distance."""

    def __init__(self, servers: Sequence[int]) -> None:
        self._relays = [Relay(server) for server in servers]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for relay in self._relays:
            self._wait(relay.start())
        return self

    def __exit__(self, *_: object) -> None:
        for relay in self._relays:
            self._wait(relay.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def ports(self) -> list[int]:
        """Where they listen, in the order of their servers."""
        return [relay.port for relay in self._relays]

    def reset(self, rtt: float) -> None:
        """Count from zero, at a round-trip time in seconds."""
        for relay in self._relays:
            relay.rtt = rtt
            relay.count = Count()

    def count(self) -> Count:
        """What went through all of them since the last reset."""
        return sum((relay.count for relay in self._relays), Count())

    def _wait(self, what: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(START_SECONDS)


def main() -> None:
    """Relay one port until interrupted, then say what went through."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=int, required=True, help="the server's port on loopback")
    parser.add_argument("--port", type=int, default=0, help="where to listen (default: any)")
    parser.add_argument("--rtt", type=float, default=0.0, help="round-trip time in ms")
    asked = parser.parse_args()
    console = Console(highlight=False)
    relay = Relay(asked.to)
    relay.rtt = asked.rtt / 1000

    async def run() -> None:
        await relay.start(asked.port)
        console.print(f"{LOOPBACK}:{relay.port} → :{asked.to}, {asked.rtt:g} ms; Ctrl-C ends it")
        try:
            await asyncio.Event().wait()
        finally:
            await relay.stop()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
    console.print(relay.count, f"round trips: {relay.count.round_trips}")


if __name__ == "__main__":
    main()
