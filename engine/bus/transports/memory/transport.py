"""The memory transport: topics and groups behind one lock."""

from __future__ import annotations

import time
from collections.abc import Sequence

from engine.bus.bounds import too_large
from engine.bus.config import BusConfig
from engine.bus.errors import GroupLost
from engine.bus.transport import (
    Admin,
    Capabilities,
    Delivery,
    Outcome,
    Outgoing,
    Receiver,
    Settlement,
    Status,
    Transport,
)
from engine.bus.transports.memory.admin import MemoryAdmin
from engine.bus.transports.memory.group import Group
from engine.bus.transports.memory.partitioned import MemoryPartitions
from engine.bus.transports.memory.store import MemoryStore, patience
from engine.core.clock import Clock, SystemClock

CAPABILITIES = Capabilities(
    durable=False,
    browse=True,
    seek=True,
    priority=True,
    idempotent_publish=True,
    ordered=True,
    pause=True,
    partitions=True,
)


class MemoryTransport(MemoryPartitions):
    """Keeps everything in this process and forgets it with the process. Thread-safe."""

    name = "memory"

    def __init__(self, clock: Clock | None = None) -> None:
        self._store = MemoryStore(clock or SystemClock())
        self._admin = MemoryAdmin(self._store)

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def admin(self) -> Admin:
        return self._admin

    def publish(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        store = self._store
        with store.changed:
            log = store.topics[topic].log
            now_ms = store.clock.now_ms()
            outcomes = [
                _too_large(message) if len(message.body) > CAPABILITIES.max_bytes else log.append(message, now_ms)
                for message in batch
            ]
            store.changed.notify_all()
        return outcomes

    def claim(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        store = self._store
        with store.changed:
            log = store.topics[topic].log
            now_ms = store.clock.now_ms()
            return [log.claim(message, now_ms) for message in batch]

    def receiver(self, topic: str, group: str, *, consumer: str, lease_ms: int, partition: int = 0) -> Receiver:
        return MemoryReceiver(self._store, topic, group, consumer=consumer, lease_ms=lease_ms, partition=partition)

    def ping(self) -> float:
        return 0.0

    def close(self) -> None:
        return


class MemoryReceiver:
    """See :class:`engine.bus.transport.Receiver`."""

    def __init__(
        self, store: MemoryStore, topic: str, group: str, *, consumer: str, lease_ms: int, partition: int = 0
    ) -> None:
        self._store = store
        self._topic = topic
        self._group = group
        self._consumer = consumer
        self._lease_ms = lease_ms
        self._partition = partition
        self._closed = False

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        store = self._store
        deadline = time.monotonic() + wait_s
        with store.changed:
            while not self._closed:
                group = self._part()
                now_ms = store.clock.now_ms()
                if not group.paused:
                    found = group.lease(limit, now_ms=now_ms, lease_ms=self._lease_ms, consumer=self._consumer)
                    if found:
                        return found
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    break
                store.changed.wait(patience(store.clock, group.next_due_ms(), now_ms, left_s))
        return []

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        store = self._store
        with store.changed:
            group = self._known_group()
            now_ms = store.clock.now_ms()
            results = [group is not None and group.settle(each, now_ms) for each in batch]
            store.changed.notify_all()
        return results

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        store = self._store
        with store.changed:
            group = self._known_group()
            now_ms = store.clock.now_ms()
            return [
                group is not None and group.extend(each, now_ms=now_ms, lease_ms=self._lease_ms) for each in receipts
            ]

    def close(self) -> None:
        with self._store.changed:
            self._closed = True
            self._store.changed.notify_all()

    def _known_group(self) -> Group | None:
        try:
            return self._part()
        except GroupLost:
            return None

    def _part(self) -> Group:
        return self._store.group(self._topic, self._group)[self._partition]


def _too_large(message: Outgoing) -> Outcome:
    return Outcome(Status.FAILED, message.message_id, error=too_large(CAPABILITIES.max_bytes))


def open_transport(config: BusConfig, clock: Clock | None = None) -> Transport:
    """A bus of its own; nothing of ``config`` applies to it."""
    return MemoryTransport(clock)
