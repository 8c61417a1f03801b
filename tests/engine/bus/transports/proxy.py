"""A TCP proxy before a store, that cuts or silences the way back when told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal

Mode = Literal["pass", "cut", "mute"]


class Proxy:
    """Forwards to ``port``. In mode ``cut`` the first answer closes the connection instead of going through; in mode
    ``mute`` answers are dropped. Requests always reach the store.

    The first answer with all of ``cut_at`` in it, in however many pieces it comes, closes its connection before it has
    gone through whole, and no later one. So does the one that comes after ``lose_in`` others, on whichever
    connection."""

    def __init__(self, port: int) -> None:
        self.mode: Mode = "pass"
        self.cut_at: tuple[bytes, ...] = ()
        self.lose_in: int | None = None
        self._counting = threading.Lock()
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Close all connections there are; new ones may come."""
        open_ones, self._open = self._open, []
        for each in open_ones:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    store = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    # It is being started anew.
                    client.close()
                    continue
                self._open += [client, store]
                # What came back since the last request.
                answer = bytearray()
                threading.Thread(target=self._forward, args=(client, store, answer), daemon=True).start()
                threading.Thread(target=self._back, args=(store, client, answer), daemon=True).start()

    @staticmethod
    def _forward(client: socket.socket, store: socket.socket, answer: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                answer.clear()
                store.sendall(data)
            store.shutdown(socket.SHUT_WR)

    def _back(self, store: socket.socket, client: socket.socket, answer: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := store.recv(65_536):
                if not answer and self._loses():
                    break
                answer += data
                if self.cut_at and all(part in answer for part in self.cut_at):
                    self.cut_at = ()
                    break
                if self.mode == "cut":
                    break
                if self.mode == "pass":
                    client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)

    def _loses(self) -> bool:
        """Whether the answer that begins now is the one to be lost."""
        with self._counting:
            if self.lose_in is None:
                return False
            self.lose_in = self.lose_in - 1 if self.lose_in else None
            return self.lose_in is None
