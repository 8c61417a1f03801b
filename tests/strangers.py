"""Servers that speak badly: what each connection is told is up to the test."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Talk = Callable[[socket.socket], None]


@contextmanager
def stranger(talk: Talk, address: str = "127.0.0.1") -> Iterator[int]:
    """The port of a server that does ``talk`` with each connection, until the caller hangs up."""
    server = socket.create_server((address, 0))
    taken: list[socket.socket] = []

    def speak(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            talk(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            taken.append(connection)
            threading.Thread(target=speak, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in taken:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def silent(connection: socket.socket) -> None:
    """Takes what it is told, and says nothing."""
    while connection.recv(65_536):
        pass


def dripping(before: bytes, after: bytes, tick: Callable[[], None], drops: int = 500) -> Talk:
    """Answers ``before``, then byte after byte with ``tick`` before each, and in the end ``after``."""

    def talk(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(before)
        for _ in range(drops):
            tick()
            connection.sendall(b"x")
        connection.sendall(after)
        silent(connection)

    return talk
