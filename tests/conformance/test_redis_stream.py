"""The Redis Streams transport keeps every promise, on the real Valkey."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import TransportConformance
from engine.bus.registry import open_transport
from engine.bus.transport import Transport
from engine.core.clock import ManualClock


class TestRedisStream(TransportConformance):
    @pytest.fixture
    def transport(self, redis_url: str, prefix: str, clock: ManualClock) -> Iterator[Transport]:
        transport = open_transport(BusConfig(type="redis_stream", url=redis_url, prefix=prefix), clock)
        yield transport
        transport.close()
