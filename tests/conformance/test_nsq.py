"""The NSQ transport keeps every promise it makes, on a real nsqd with the real Valkey beside it.

nsqd cannot be given a clock: time passes by waiting, so leases are short here. What it does not promise (order,
priorities, history) is left out by what it declares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import (
    AdminConformance,
    ConcurrencyConformance,
    DeadLetterConformance,
    DeliveryConformance,
    GroupConformance,
    IdempotencyConformance,
    LeaseConformance,
    PayloadConformance,
    PublishConformance,
    RetryConformance,
    WaitingConformance,
)
from engine.bus.registry import open_transport
from engine.bus.transport import Transport


class TestNsq(
    ConcurrencyConformance,
    DeadLetterConformance,
    DeliveryConformance,
    GroupConformance,
    IdempotencyConformance,
    LeaseConformance,
    PayloadConformance,
    PublishConformance,
    RetryConformance,
    WaitingConformance,
    AdminConformance,
):
    lease_ms = 1_000

    @pytest.fixture
    def transport(self, redis_url: str, nsqd_url: str, prefix: str) -> Iterator[Transport]:
        transport = open_transport(BusConfig(type="nsq", url=redis_url, prefix=prefix, options={"nsqd": nsqd_url}))
        yield transport
        transport.close()

    @pytest.fixture
    def pass_time(self) -> Callable[[float], None]:
        return time.sleep
