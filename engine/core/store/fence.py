"""A server that was replaced confirms nothing: an answer counts while nobody says that another is the primary.

A primary that stood still, or was cut off from those who watch it, is replaced without knowing it. Once it runs on it
goes on taking writes, for as long as nobody tells it that it follows another now (Sentinels take some ten seconds),
and then it throws them away. Who still has a connection to it must not take its word.

The rule: an answer is passed on while the server was vouched for less than :data:`VOUCHED_S` ago; else it is first seen
to be alive, and then who would replace it is asked. To be replaced, a server must have stood still for the watchers'
patience (``down-after-milliseconds``, ``cluster-node-timeout``), so between the last word for it and its first answer
afterwards lies more than that. Where the patience is longer than :data:`VOUCHED_S`, as it is wherever it was not made
very short, nothing of such a server is passed on. What stays open is the half second after a word for it, for a server
that is replaced while it answers: cut off from its watchers alone, or by an operator's ``SENTINEL FAILOVER``. Only
waiting for replicas, or ``min-replicas-to-write``, closes that.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

import redis
from redis.connection import Connection, ConnectionPool, SSLConnection
from redis.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection

from engine.core.clock import Clock, SystemClock
from engine.core.store.address import Place

#: Seconds for which a word for a server holds.
VOUCHED_S = 0.5


class Replaced(redis.ConnectionError):
    """The answer came from a server that is no primary any more, or is about to be none: it may be lost."""


class Watchers(Protocol):
    """Who decides which server is the primary. Thread-safe."""

    def objection(self, place: Place) -> str:
        """Why the server at ``place`` is not surely the primary; empty when nobody that answers objects."""
        ...

    def alive(self, place: Place) -> bool:
        """Whether the server at ``place`` answers now."""
        ...

    def close(self) -> None: ...


class Fence:
    """Stands behind every answer of a store that can choose another primary. Thread-safe."""

    def __init__(self, watchers: Watchers, clock: Clock | None = None) -> None:
        self._watchers = watchers
        self._clock = clock or SystemClock()
        #: One for each server: who waits for one that stands still holds up nobody at another.
        self._locks: dict[Place, threading.Lock] = {}
        #: When the last question about a server began that ended well.
        self._vouched: dict[Place, float] = {}
        #: When the last question about a server began, and the objection.
        self._asked: dict[Place, tuple[float, str]] = {}

    def check(self, place: Place) -> None:
        """Called with each answer from ``place``. Raises :class:`Replaced` for one that must not be passed on."""
        now = self._clock.monotonic()
        vouched = self._vouched.get(place)
        if vouched is not None and now - vouched < VOUCHED_S:
            return
        with self._locks.setdefault(place, threading.Lock()):
            begun, why = self._asked.get(place, (float("-inf"), ""))
            # One thread asks for all whose answers came before its question.
            if begun < now:
                begun = self._clock.monotonic()
                why = self._ask(place)
                self._asked[place] = (begun, why)
                if not why:
                    self._vouched[place] = begun
        if why:
            raise Replaced(why)

    def close(self) -> None:
        """Close the connections for the questions. Idempotent; a later question opens new ones."""
        self._watchers.close()

    def _ask(self, place: Place) -> str:
        # Its life first: what happens to it after this answer is for the next question.
        if not self._watchers.alive(place):
            return f"the server at {place[0]}:{place[1]} stopped answering"
        return self._watchers.objection(place)


def fenced(pool: ConnectionPool, fence: Fence) -> ConnectionPool:
    """``pool``, which has made no connection yet, with ``fence`` behind each of its answers."""
    pool.connection_class = _FENCED[pool.connection_class]
    pool.connection_kwargs = {**pool.connection_kwargs, "fence": fence}
    return pool


class _Fenced:
    """Mixed into redis-py's connections."""

    host: str
    port: int

    def __init__(self, *, fence: Fence, **words: Any) -> None:
        super().__init__(**words)
        self._fence = fence

    def read_response(self, *args: Any, **options: Any) -> Any:
        found = super().read_response(*args, **options)  # type: ignore[misc]
        try:
            self._fence.check((self.host, self.port))
        except Replaced:
            self.disconnect()  # type: ignore[attr-defined]
            self._look_again()
            raise
        return found

    def _look_again(self) -> None:
        """Let the others of the pool learn what this one has."""


class _FencedSentinelManaged(_Fenced):
    def _look_again(self) -> None:
        try:
            # Closes what is idle, where the primary is another now.
            self.connection_pool.get_master_address()  # type: ignore[attr-defined]
        except redis.RedisError:
            # The next connection asks again, and says so.
            return


class _Server(_Fenced, Connection):
    pass


class _ServerByTls(_Fenced, SSLConnection):
    pass


class _Primary(_FencedSentinelManaged, SentinelManagedConnection):
    pass


class _PrimaryByTls(_FencedSentinelManaged, SentinelManagedSSLConnection):
    pass


_FENCED: Mapping[type, type] = {
    Connection: _Server,
    SSLConnection: _ServerByTls,
    SentinelManagedConnection: _Primary,
    SentinelManagedSSLConnection: _PrimaryByTls,
}
