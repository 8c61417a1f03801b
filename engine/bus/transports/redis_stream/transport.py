"""The Redis Streams transport: one object that publishes, opens receivers and has an admin side."""

from __future__ import annotations

import time
from copy import copy
from typing import Any

from engine.bus.config import BusConfig
from engine.bus.transport import Admin, Receiver
from engine.bus.transports.redis_stream.admin import RedisStreamAdmin
from engine.bus.transports.redis_stream.bulk import RedisBulk
from engine.bus.transports.redis_stream.ordering import RedisPartitions
from engine.bus.transports.redis_stream.receiver import PartitionReader, RedisStreamReceiver
from engine.bus.transports.redis_stream.topic import StoreTime, TopicKeys
from engine.core.clock import Clock
from engine.core.store.link import Link


class RedisStreamTransport(RedisBulk, RedisPartitions):
    """A topic is three streams, a group one sorted set of leases beside the streams' own pending lists.

    Needs Redis 6.2 or later, or Valkey. Leases, due times and windows are read from the server's clock unless a clock
    is injected. Thread-safe; after a fork the child opens connections of its own.
    """

    name = "redis_stream"

    def __init__(self, config: BusConfig, clock: Clock | None = None) -> None:
        super().__init__(Link.open(config.url), config.prefix, StoreTime(clock))
        self._admin = RedisStreamAdmin(self._link, config.prefix, self._time)

    def __repr__(self) -> str:
        return f"RedisStreamTransport({self._link.address}, prefix={self._prefix!r})"

    @property
    def admin(self) -> Admin:
        return self._admin

    def confirming(self, replicas: int) -> RedisStreamTransport:
        made = copy(self)
        made._replicas = replicas
        return made

    def receiver(self, topic: str, group: str, *, consumer: str, lease_ms: int, partition: int = 0) -> Receiver:
        keys = TopicKeys(self._prefix, topic, partition).group(group)
        end = PartitionReader(keys, group=group, consumer=consumer, lease_ms=lease_ms, time=self._time)
        return RedisStreamReceiver(self._link, end, self._time)

    def ping(self) -> float:
        started = time.perf_counter()
        self._link.ping()
        return time.perf_counter() - started

    def close(self) -> None:
        self._link.close()


def open_transport(config: BusConfig, clock: Clock | None = None) -> Any:
    """Open the transport; no connection is made before the first command."""
    return RedisStreamTransport(config, clock)
