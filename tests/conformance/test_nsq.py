"""The NSQ transport keeps every promise it makes, on a real nsqd with the real Valkey beside it.

nsqd cannot be given a clock: time passes by waiting, and leases are short. What the transport declares it has not (a
history, order, priorities, empty messages) is skipped as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import TransportConformance
from engine.bus.conformance.delays import MakeDelays
from engine.bus.conformance.lost_answers import Lose
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd
from tests.conformance.stores import cutting, delays_on, losing, restarting
from tests.engine.bus.transports.proxy import Proxy

#: nsqd looks for lapsed leases every 100 ms, but takes notice of a new channel only every 5 s.
NOTICED_S = 6.0
#: What became of a message takes so long to reach nsqd, which does not answer.
HEARD_S = 0.1


class TestNsq(TransportConformance):
    lease_ms = 1_000
    reads_clock = False
    quiet_s = NOTICED_S
    heard_s = HEARD_S

    @pytest.fixture
    def config(self, request: pytest.FixtureRequest, redis_url: str, nsqd_url: str, prefix: str) -> BusConfig:
        if "restart" in request.fixturenames or "cut" in request.fixturenames:
            nsqd_url = request.getfixturevalue("own_nsqd").url
        if "cut" in request.fixturenames:
            nsqd_url = f"http://127.0.0.1:{request.getfixturevalue('proxy').port}"
        if "lose" in request.fixturenames:
            # Who has what is said beside nsqd, which answers no consumer.
            own, wire = request.getfixturevalue("own_store"), request.getfixturevalue("wire_beside")
            redis_url = own.url.replace(str(own.port), str(wire.port))
        return BusConfig(type="nsq", url=redis_url, prefix=prefix, options={"nsqd": nsqd_url})

    @pytest.fixture
    def proxy(self, own_nsqd: StandaloneNsqd) -> Iterator[Proxy]:
        made = Proxy(own_nsqd.http_port)
        yield made
        made.close()

    @pytest.fixture
    def restart(self, own_nsqd: StandaloneNsqd) -> Callable[[], None]:
        return restarting(own_nsqd)

    @pytest.fixture
    def cut(self, proxy: Proxy) -> Callable[[], AbstractContextManager[None]]:
        return cutting(proxy)

    @pytest.fixture
    def wire_beside(self, own_store: StandaloneStore) -> Iterator[Proxy]:
        made = Proxy(own_store.port)
        yield made
        made.close()

    @pytest.fixture
    def lose(self, wire_beside: Proxy) -> Lose:
        return losing(wire_beside)

    @pytest.fixture
    def make_delays(self, redis_url: str, prefix: str) -> MakeDelays:
        return delays_on(redis_url, prefix)
