"""Connections between two commands: kept while they are sound, given back at the first doubt."""

from __future__ import annotations

import os
import select
from collections import deque
from contextlib import suppress
from typing import Any

from redis.connection import ConnectionPool


class Lender:
    """Lends the connections of one pool. Thread-safe; a fork's child begins with none.

    redis-py's pool locks, measures and checks for several microseconds at each lending. A connection that came back
    sound is therefore kept here, and goes back to the pool as soon as there is any doubt about it.
    """

    __slots__ = ("_kept", "_pid", "pool")

    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool
        self._kept: deque[tuple[Any, select.poll]] = deque()
        self._pid = os.getpid()

    def take(self) -> tuple[Any, select.poll]:
        """A connection, and what tells whether it has something unasked to say. Raises redis-py's errors."""
        if self._pid != os.getpid():
            self._kept, self._pid = deque(), os.getpid()
        pool = self.pool
        try:
            connection, watch = lent = self._kept.pop()
        except IndexError:
            pass
        else:
            # Behind Sentinels the pool owns only what leads to the primary that it knows of. Whatever there is to be
            # read between two commands is the server's good-bye.
            if pool.owns_connection(connection) and not watch.poll(0):
                return lent
            pool.release(connection)
        connection, watch = pool.get_connection(), select.poll()
        # There is no other way to its socket, and redis-py's own question costs more than an answer.
        watch.register(connection._sock, select.POLLIN)  # type: ignore[arg-type]
        return connection, watch

    def take_back(self, lent: tuple[Any, select.poll], *, sound: bool) -> None:
        """One that still owes answers is not sound: it is closed, never reused."""
        if sound:
            self._kept.append(lent)
        else:
            lent[0].disconnect()
            self.pool.release(lent[0])

    def empty(self) -> None:
        """Hand all that are kept to the pool, which does with them what is due."""
        with suppress(IndexError):
            while True:
                self.pool.release(self._kept.pop()[0])
