"""The Redis Streams transport keeps every promise, on the real Valkey."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import TransportConformance, WaitingConformance
from engine.bus.registry import open_transport
from engine.bus.transport import Transport
from engine.core.clock import ManualClock


class TestRedisStream(TransportConformance):
    @pytest.fixture
    def transport(self, redis_url: str, prefix: str, clock: ManualClock) -> Iterator[Transport]:
        transport = open_transport(BusConfig(type="redis_stream", url=redis_url, prefix=prefix), clock)
        yield transport
        transport.close()


class TestWaitingByTheStoresClock(WaitingConformance):
    """As in production: no clock is injected, so a wait is one long blocking read that something must end."""

    lease_ms = 300

    @pytest.fixture
    def transport(self, redis_url: str, prefix: str) -> Iterator[Transport]:
        transport = open_transport(BusConfig(type="redis_stream", url=redis_url, prefix=prefix))
        yield transport
        transport.close()

    @pytest.fixture
    def pass_time(self) -> Callable[[float], None]:
        def pass_time(seconds: float) -> None:
            threading.Event().wait(seconds)

        return pass_time
