"""The seam between a command and the servers of the store: which of them has the key, and what an error says of that.

Everything else in hbus speaks to "the store". Here alone it shows whether that is one server, whichever one the
Sentinels name, or the nodes of a cluster.
"""

from __future__ import annotations

from typing import Protocol

from redis.connection import ConnectionPool
from redis.exceptions import ReadOnlyError

from engine.core.store.fence import Fence


class StoreNodes(Protocol):
    """Thread-safe. No connection is made before the first use."""

    @property
    def label(self) -> str:
        """Where the store is, for people; no secrets."""
        ...

    @property
    def only(self) -> ConnectionPool | None:
        """Connections to the one primary that has every key; ``None`` where there are several."""
        ...

    def pool_for(self, key: str | bytes) -> ConnectionPool:
        """Connections to the primary that has ``key``; for the empty key, to any. Raises redis-py's errors."""
        ...

    def asked(self, error: Exception) -> ConnectionPool | None:
        """Where one command may be asked, preceded by ASKING, when ``error`` says that its slot is on its way."""
        ...

    def heed(self, error: Exception, pool: ConnectionPool | None) -> bool:
        """Learn from an error that ``pool`` gave; whether the command did not run and may be sent again at once."""
        ...

    def primaries(self) -> list[ConnectionPool]:
        """One for each primary. Raises redis-py's errors."""
        ...

    def sibling(self, answer_timeout_s: float) -> StoreNodes:
        """The same servers by connections of its own, which wait longer or shorter for an answer."""
        ...

    def close(self) -> None:
        """Close the connections that nobody uses now. Idempotent; a later use opens one again."""
        ...


class OneServer:
    """A store with one primary: a server by itself, or the one that the Sentinels name at each new connection."""

    def __init__(self, make_pool: PoolMaker, label: str, answer_timeout_s: float, fence: Fence | None = None) -> None:
        self._make_pool = make_pool
        self._fence = fence
        self._pool = make_pool(answer_timeout_s)
        self._label = label

    @property
    def label(self) -> str:
        return self._label

    @property
    def only(self) -> ConnectionPool:
        return self._pool

    def pool_for(self, key: str | bytes) -> ConnectionPool:
        return self._pool

    def asked(self, error: Exception) -> ConnectionPool | None:
        return None

    def heed(self, error: Exception, pool: ConnectionPool | None) -> bool:
        if isinstance(error, ReadOnlyError):
            # It was the primary once: the next connection asks who is now.
            self._pool.disconnect(inuse_connections=False)
        return False

    def primaries(self) -> list[ConnectionPool]:
        return [self._pool]

    def sibling(self, answer_timeout_s: float) -> OneServer:
        return OneServer(self._make_pool, self._label, answer_timeout_s, self._fence)

    def close(self) -> None:
        self._pool.disconnect(inuse_connections=False)
        if self._fence is not None:
            self._fence.close()


class PoolMaker(Protocol):
    """Makes the connections of :class:`OneServer`, given how many seconds an answer may take."""

    def __call__(self, answer_timeout_s: float) -> ConnectionPool: ...
