"""The Redis Streams transport keeps every promise, on the real Valkey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import TransportConformance, WaitingConformance
from engine.bus.conformance.delays import MakeDelays
from engine.bus.conformance.lost_answers import Lose
from hbus_console.supervisor.standalone import StandaloneStore
from tests.conformance.stores import cutting, delays_on, losing, restarting
from tests.engine.bus.transports.proxy import Proxy


class TestRedisStream(TransportConformance):
    @pytest.fixture
    def config(self, request: pytest.FixtureRequest, redis_url: str, prefix: str) -> BusConfig:
        asked = {"restart", "cut", "lose"}.intersection(request.fixturenames)
        if asked:
            redis_url = request.getfixturevalue("own_store").url
        if asked - {"restart"}:
            proxy = request.getfixturevalue("proxy")
            redis_url = redis_url.replace(str(request.getfixturevalue("own_store").port), str(proxy.port))
        return BusConfig(type="redis_stream", url=redis_url, prefix=prefix)

    @pytest.fixture
    def proxy(self, own_store: StandaloneStore) -> Iterator[Proxy]:
        made = Proxy(own_store.port)
        yield made
        made.close()

    @pytest.fixture
    def restart(self, own_store: StandaloneStore) -> Callable[[], None]:
        return restarting(own_store)

    @pytest.fixture
    def cut(self, proxy: Proxy) -> Callable[[], AbstractContextManager[None]]:
        return cutting(proxy)

    @pytest.fixture
    def lose(self, proxy: Proxy) -> Lose:
        return losing(proxy)

    @pytest.fixture
    def make_delays(self, redis_url: str, prefix: str) -> MakeDelays:
        return delays_on(redis_url, prefix)


class TestWaitingByTheStoresClock(WaitingConformance):
    """As in production: no clock is injected, so a wait is one long blocking read that something must end."""

    lease_ms = 300
    reads_clock = False

    @pytest.fixture
    def config(self, redis_url: str, prefix: str) -> BusConfig:
        return BusConfig(type="redis_stream", url=redis_url, prefix=prefix)
