"""Redis Streams transports on stores of the test's own, with the store's clock and without an injected one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from engine.bus.config import BusConfig
from engine.bus.transport import Outgoing, Transport
from engine.bus.transports.redis_stream import open_transport
from engine.core.clock import ManualClock
from hbus_console.supervisor.standalone import StandaloneStore

TOPIC = "booking.created"
GROUP = "billing"
LEASE_MS = 30_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(own_store: StandaloneStore) -> Iterator[redis.Redis]:
    """The store, to be tampered with."""
    client = redis.Redis.from_url(own_store.url)
    yield client
    client.close()


@pytest.fixture
def transport(own_store: StandaloneStore, clock: ManualClock) -> Iterator[Transport]:
    """A transport on a store of its own, under a manual clock, with one topic and one group."""
    made = open_transport(BusConfig(url=own_store.url), clock)
    made.admin.create_topic(TOPIC)
    made.admin.create_group(TOPIC, GROUP)
    yield made
    made.close()


Publish = Callable[..., None]


@pytest.fixture
def publish(transport: Transport) -> Publish:
    """Publishes bodies and insists that all were stored."""

    def publish(*bodies: bytes) -> None:
        outcomes = transport.publish(TOPIC, [Outgoing(body.decode(), body) for body in bodies])
        assert [outcome.status.value for outcome in outcomes] == ["ok"] * len(bodies)

    return publish
