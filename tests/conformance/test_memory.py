"""The memory transport keeps every promise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import TransportConformance
from engine.bus.registry import open_transport
from engine.bus.transport import Transport
from engine.core.clock import ManualClock


class TestMemory(TransportConformance):
    @pytest.fixture
    def transport(self, clock: ManualClock) -> Iterator[Transport]:
        transport = open_transport(BusConfig(type="memory"), clock)
        yield transport
        transport.close()
