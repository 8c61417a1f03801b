"""What ``pytest --hbus-transport`` runs: the whole kit on the transport named there."""

from __future__ import annotations

import secrets

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance import TransportConformance
from engine.bus.conformance.plugin import FACTORY
from engine.bus.registry import Factory

#: Leases where time passes by waiting.
SHORT_LEASE_MS = 1_000


class TestTransport(TransportConformance):
    @pytest.fixture(autouse=True)
    def _as_asked_for(self, request: pytest.FixtureRequest) -> None:
        if request.config.getoption("--hbus-real-time"):
            self.reads_clock, self.lease_ms = False, SHORT_LEASE_MS

    @pytest.fixture
    def factory(self, request: pytest.FixtureRequest) -> Factory:
        return request.config.stash[FACTORY]

    @pytest.fixture
    def config(self, request: pytest.FixtureRequest) -> BusConfig:
        option = request.config.getoption
        pairs = (given.partition("=") for given in option("--hbus-option"))
        return BusConfig(
            type=option("--hbus-transport"),
            url=option("--hbus-url"),
            prefix=f"t{secrets.token_hex(6)}",
            options={name: value for name, _, value in pairs},
        )
