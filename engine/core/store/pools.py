"""Pools of connections whose bound is ours, and who say so when it is reached."""

from __future__ import annotations

from redis.connection import ConnectionInterface, ConnectionPool
from redis.exceptions import MaxConnectionsError
from redis.sentinel import SentinelConnectionPool


class _Bounded:
    """Mixed into redis-py's pools, which say only that there are too many."""

    max_connections: int

    def make_connection(self) -> ConnectionInterface:
        try:
            return super().make_connection()  # type: ignore[misc,no-any-return]
        except MaxConnectionsError as error:
            raise MaxConnectionsError(
                f"all {self.max_connections:,} connections that this process may open for this are in use"
            ) from error


class BoundedPool(_Bounded, ConnectionPool):
    """Connections to one server."""


class BoundedSentinelPool(_Bounded, SentinelConnectionPool):
    """Connections to the primary that Sentinels name."""
