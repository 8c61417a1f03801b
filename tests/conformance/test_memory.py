"""The memory transport keeps every promise."""

from __future__ import annotations

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import TransportConformance
from engine.bus.conformance.delays import MakeDelays
from tests.conformance.stores import delays_on


class TestMemory(TransportConformance):
    @pytest.fixture
    def config(self) -> BusConfig:
        return BusConfig(type="memory")

    @pytest.fixture
    def make_delays(self, redis_url: str, prefix: str) -> MakeDelays:
        return delays_on(redis_url, prefix)
