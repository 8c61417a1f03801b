"""Buses to test on: the memory transport, and the real store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from engine.bus.config import BusConfig
from engine.bus.delays import RedisDelays
from engine.core.clock import ManualClock
from tests.engine.bus.kit import Bus, make_bus


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def bus(clock: ManualClock) -> Iterator[Bus]:
    """On the memory transport."""
    made = make_bus(BusConfig(type="memory"), clock)
    yield made
    made.transport.close()


@pytest.fixture(params=["memory", "redis_stream"])
def any_bus(request: pytest.FixtureRequest, clock: ManualClock, redis_url: str, prefix: str) -> Iterator[Bus]:
    """On each transport, with the store's own time replaced by the test's."""
    made = make_bus(BusConfig(type=request.param, url=redis_url, prefix=prefix), clock)
    yield made
    made.transport.close()


@pytest.fixture
def redis_bus(clock: ManualClock, redis_url: str, prefix: str) -> Iterator[Bus]:
    """On the real store."""
    made = make_bus(BusConfig(url=redis_url, prefix=prefix), clock)
    yield made
    made.transport.close()


@pytest.fixture
def delays(clock: ManualClock, redis_url: str, prefix: str) -> Iterator[RedisDelays]:
    """The delay path of the same store."""
    client = redis.Redis.from_url(redis_url)
    yield RedisDelays(client, prefix, clock=clock)
    client.close()
