"""The store is killed under load: what was confirmed is there, what was not is repeated without doubles."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from engine.bus.config import BusConfig
from engine.bus.transport import Outgoing, Settlement, Status, Transport
from engine.bus.transports.redis_stream import open_transport
from engine.core.errors import Unavailable
from hbus_console.supervisor.standalone import StandaloneStore

pytestmark = pytest.mark.chaos

TOPIC = "booking.created"
GROUP = "billing"
PUBLISHERS = 4
EACH = 300
PATIENCE_S = 240


def keyed(publisher: int, number: int) -> Outgoing:
    key = f"{publisher}-{number}"
    return Outgoing(key, key.encode(), idempotency_key=key, idempotency_digest="d", idempotency_window_ms=600_000)


class Load:
    """Publishers that repeat until confirmed, and one consumer, over a store that comes and goes."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.confirmed = 0
        self.troubles: Counter[Status] = Counter()
        self.seen: Counter[bytes] = Counter()
        self._lock = threading.Lock()
        self._deadline = time.monotonic() + PATIENCE_S
        self._threads = [threading.Thread(target=self._publish, args=(number,)) for number in range(PUBLISHERS)]
        self._threads.append(threading.Thread(target=self._consume))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def wait_for(self, confirmed: int) -> None:
        while self.confirmed < confirmed and time.monotonic() < self._deadline:
            threading.Event().wait(0.005)

    def _publish(self, publisher: int) -> None:
        for number in range(EACH):
            message = keyed(publisher, number)
            while time.monotonic() < self._deadline:
                (outcome,) = self.transport.publish(TOPIC, [message])
                if outcome.status in (Status.OK, Status.DUPLICATE):
                    break
                with self._lock:
                    self.troubles[outcome.status] += 1
                threading.Event().wait(0.01)
            with self._lock:
                self.confirmed += 1

    def _consume(self) -> None:
        receiver = self.transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=500)
        while len(self.seen) < PUBLISHERS * EACH and time.monotonic() < self._deadline:
            try:
                batch = receiver.receive(50, 0.2)
                # The effect comes first: an ack whose answer is lost may have been taken.
                self.seen.update(delivery.body for delivery in batch)
                receiver.settle([Settlement(delivery.receipt) for delivery in batch])
            except Unavailable:
                threading.Event().wait(0.01)
        receiver.close()


def test_a_store_killed_twice_under_load_loses_and_doubles_nothing(own_store: StandaloneStore) -> None:
    # Given a store that syncs before it answers: with `everysec` it may answer up to two seconds before it writes
    own_store.stop()
    with (own_store.folder / "valkey.conf").open("a") as config:
        config.write("appendfsync always\n")
    own_store.start()
    transport = open_transport(BusConfig(url=own_store.url))
    transport.admin.create_topic(TOPIC)
    transport.admin.create_group(TOPIC, GROUP)
    load = Load(transport)
    load.start()

    # When the store is killed at a third and at two thirds of the load
    for share in (1, 2):
        load.wait_for(share * PUBLISHERS * EACH // 3)
        own_store.kill()
        threading.Event().wait(0.1)
        own_store.start()
    load.join()

    # Then publishers had trouble, and yet every message lies in the topic once and was consumed
    expected = {keyed(publisher, number).body for publisher in range(PUBLISHERS) for number in range(EACH)}
    assert load.troubles.total() > 0
    stored = [entry.body for entry in transport.admin.browse(TOPIC, limit=10_000).entries]
    assert len(stored) == len(expected)
    assert set(stored) == expected
    assert set(load.seen) == expected
    transport.close()
