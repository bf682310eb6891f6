"""A TCP way to a lab host that can be cut: what is open ends in a reset, what is new is refused."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from typing import Self

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing drops what is under way and sends RST, as a firewall that lost its state."""
GLANCE = 0.02
"""Seconds between two looks at whether the way is to be cut."""


class Cable:
    """Forwards to a port of this machine while it is entered."""

    def __init__(self, far: int) -> None:
        self._far = far
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]
        self._ends: dict[socket.socket, socket.socket] = {}
        self._away = 0.0
        self._over = False
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *of_error: object) -> None:
        self._over = True
        self._thread.join()

    def cut(self, seconds: float) -> None:
        """Break every connection, and let none in for a time."""
        self._away = seconds

    def _carry(self) -> None:
        while not self._over:
            ready, _, _ = select.select([self._listener, *self._ends], [], [], GLANCE)
            for one in ready:
                if one is self._listener:
                    self._join()
                elif one in self._ends:
                    self._pass_on(one)
            if self._away:
                self._listener.close()
                self._break()
                time.sleep(self._away)
                self._away = 0.0
                self._listener = self._listen(self.port)
        self._break()
        self._listener.close()

    def _join(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self._far))
        except OSError:  # the host is down
            near.close()
            return
        self._ends |= {near: far, far: near}

    def _pass_on(self, one: socket.socket) -> None:
        try:
            if data := one.recv(1 << 16):
                self._ends[one].sendall(data)
                return
        except OSError:
            pass
        for end in (one, self._ends[one]):
            del self._ends[end]
            end.close()

    def _break(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            end.close()
        self._ends.clear()

    @staticmethod
    def _listen(port: int) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        return listener
