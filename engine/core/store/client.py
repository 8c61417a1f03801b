"""The one place that makes connections to the store, whatever its address says."""

from __future__ import annotations

from functools import partial
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, SSLConnection
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from engine.core.store.address import Place, StoreAddress, StoreKind
from engine.core.store.cluster import ClusterNodes
from engine.core.store.cluster_client import ClusterClient
from engine.core.store.fence import Fence, fenced
from engine.core.store.nodes import OneServer, StoreNodes
from engine.core.store.pools import BoundedPool, BoundedSentinelPool
from engine.core.store.tls import tls_trouble
from engine.core.store.watchers import ALIVE_TIMEOUT_S, ASK_TIMEOUT_S, SentinelWatchers

#: Seconds to wait for an answer to a command that does not block, and for a connection.
ANSWER_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 5.0
#: The most connections of one pool; redis-py's 100 are fewer than a process has threads that may ask at once. A server
#: takes as many unless it was told otherwise (``maxclients``). An address may say ``max_connections=`` behind its ?.
MOST_CONNECTIONS = 10_000
#: Seconds that one Sentinel may take to name the primary.
SENTINEL_TIMEOUT_S = 1.0


def open_client(
    url: str,
    *,
    field: str = "REDIS_URL",
    answer_timeout_s: float = ANSWER_TIMEOUT_S,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    **options: Any,
) -> redis.Redis:
    """A client of the store at ``url``; connects on first use and repeats nothing by itself.

    After a failover a connection that breaks is replaced by one to the new primary. ``options`` are redis-py's own of a
    connection. Raises ``ConfigurationError`` for ``field`` when ``url`` is no address, or names files that are none.
    """
    if told := options.keys() & {"socket_timeout", "socket_connect_timeout"}:
        # Such a word of redis-py's own would lose against ours without a word.
        raise TypeError(f"{', '.join(sorted(told))}: say answer_timeout_s or connect_timeout_s")
    address = StoreAddress.parse(url, field=field)
    address.check_files(field=field)
    words = {
        "socket_connect_timeout": connect_timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "max_connections": _most_connections(address),
        **options,
    }
    if address.kind is StoreKind.CLUSTER:
        return ClusterClient(ClusterNodes(address, partial(_server_pool, address, words), answer_timeout_s))
    return redis.Redis.from_pool(_primary_pool(address, words, _fence_of(address, words), answer_timeout_s))


def open_nodes(address: StoreAddress, *, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> StoreNodes:
    """Connections for who must know what was sent and what was answered (see the Redis Streams transport)."""
    words = {
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_keepalive": True,
        # RESP2 keeps the pool's check for connections that the server has closed.
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": False,
        "max_connections": _most_connections(address),
    }
    if address.kind is StoreKind.CLUSTER:
        return ClusterNodes(address, partial(_server_pool, address, words), answer_timeout_s)
    fence = _fence_of(address, words)
    return OneServer(partial(_primary_pool, address, words, fence), str(address), answer_timeout_s, fence)


def each_primary(client: redis.Redis) -> list[redis.Redis]:
    """A client of each primary: of a cluster several, else ``client`` itself."""
    return client.each() if isinstance(client, ClusterClient) else [client]


def _most_connections(address: StoreAddress) -> int:
    return int(address.options.get("max_connections", MOST_CONNECTIONS))


def _primary_pool(
    address: StoreAddress, words: dict[str, Any], fence: Fence | None, answer_timeout_s: float
) -> ConnectionPool:
    if fence is not None:
        pool = _sentinel_pool(address, {**address.options, **words, "socket_timeout": answer_timeout_s})
        return fenced(pool, fence)
    if not address.places:
        return BoundedPool(**{**address.options, **words, "socket_timeout": answer_timeout_s})
    return _server_pool(address, words, address.places[0], answer_timeout_s)


def _server_pool(address: StoreAddress, words: dict[str, Any], place: Place, answer_timeout_s: float) -> ConnectionPool:
    host, port = place
    return BoundedPool(**{**address.options, **words, "host": host, "port": port, "socket_timeout": answer_timeout_s})


class _Sentinels(Sentinel):
    """Says in an operator's words that no primary is known; redis-py would show every option of its connections."""

    def discover_master(self, service_name: str) -> Place:
        try:
            host, port = super().discover_master(service_name)  # type: ignore[no-untyped-call]
        except MasterNotFoundError as error:
            why = "; they refuse sentinel_password" if "AuthenticationError" in str(error) else ""
            behind = self._refused_by_tls() if self.sentinel_kwargs["ssl"] else None
            raise MasterNotFoundError(f"the Sentinels name no living primary called {service_name!r}{why}") from behind
        return host, port

    def _refused_by_tls(self) -> redis.RedisError | None:
        """What a Sentinel met in place of an encrypted connection: redis-py's error does not keep it."""
        for sentinel in self.sentinels:
            try:
                sentinel.ping()
            except redis.RedisError as error:
                if tls_trouble(error):
                    return error
        return None


def _sentinel_pool(address: StoreAddress, words: dict[str, Any]) -> ConnectionPool:
    own = dict(address.sentinel_options)
    encrypted = own.pop("connection_class", None) is SSLConnection
    sentinel = _Sentinels(  # type: ignore[no-untyped-call]
        list(address.places), sentinel_kwargs={**own, "ssl": encrypted, **_patience(SENTINEL_TIMEOUT_S)}
    )
    words.pop("connection_class", None)
    return BoundedSentinelPool(address.primary_name, sentinel, ssl=encrypted, **words)  # type: ignore[no-untyped-call]


def _fence_of(address: StoreAddress, words: dict[str, Any]) -> Fence | None:
    """What stands behind each answer; nothing where Sentinels watch no primary. (A cluster's has its nodes.)"""
    if address.kind is not StoreKind.SENTINEL:
        return None

    # In RESP2 the answers have one form, whatever else ``words`` asks for.
    plain = {"protocol": 2, "decode_responses": False}

    def sentinel_pool(place: Place) -> ConnectionPool:
        host, port = place
        words = {**address.sentinel_options, **plain, **_patience(ASK_TIMEOUT_S)}
        return BoundedPool(**{**words, "host": host, "port": port})

    def server_pool(place: Place) -> ConnectionPool:
        asking = {**words, **plain, **_patience(ALIVE_TIMEOUT_S)}
        return _server_pool(address, asking, place, ALIVE_TIMEOUT_S)

    return Fence(SentinelWatchers(address.primary_name, address.places, sentinel_pool, server_pool))


def _patience(seconds: float) -> dict[str, Any]:
    """Words of a connection that waits so long and tries nothing again."""
    return {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry": Retry(NoBackoff(), 0)}
