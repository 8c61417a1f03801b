"""Delayed messages, which the layer above keeps beside every transport alike, on this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from engine.bus.conformance.base import TransportTests, Workbench
from engine.bus.conformance.outages import NOT_GIVEN
from engine.bus.conformance.promises import keeps, needs
from engine.bus.conformance.running import House
from engine.bus.delay_mover import DelayMover
from engine.bus.delays import CLAIM_S, RedisDelays
from engine.bus.message import decode
from engine.bus.options import PublishOptions
from engine.bus.producer import Producer
from engine.bus.transport import Transport
from engine.core.clock import Clock, ManualClock
from engine.core.errors import Unavailable

MakeDelays = Callable[[Clock], RedisDelays]


class DelayConformance(TransportTests):
    """Override ``make_delays`` where a Redis or Valkey keeps delayed messages. Their time is the test's own."""

    @pytest.fixture
    def make_delays(self) -> MakeDelays:
        """Opens the delayed messages of an installation, under a clock."""
        pytest.skip(f"{NOT_GIVEN}a store for delayed messages")

    @pytest.fixture
    def later(self, bench: Workbench) -> ManualClock:
        return ManualClock(bench.clock.now_ms())

    @pytest.fixture
    def delays(self, make_delays: MakeDelays, later: ManualClock) -> RedisDelays:
        return make_delays(later)

    @pytest.fixture
    def producer(self, bench: Workbench, transport: Transport, delays: RedisDelays, later: ManualClock) -> Producer:
        return House(bench, transport).make_producer(delays=delays, clock=later)

    @keeps("K23")
    def test_a_delayed_message_is_never_early(
        self, bench: Workbench, producer: Producer, delays: RedisDelays, later: ManualClock
    ) -> None:
        receipt = producer.publish(bench.topic, {"n": 1}, PublishOptions(delay_s=90))
        mover = DelayMover(delays, lambda: producer)

        later.advance(89.999)
        mover.tick()
        assert bench.admin.counts(bench.topic).get("published", 0) == 0
        later.advance(0.001)
        mover.tick()

        assert decode(bench.take_one(bench.receiver()).body).id == receipt.message_id

    @keeps("K23")
    @needs("idempotent_publish")
    def test_a_mover_that_dies_after_its_publish_doubles_nothing(
        self,
        bench: Workbench,
        producer: Producer,
        delays: RedisDelays,
        later: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        producer.publish(bench.topic, {"n": 1}, PublishOptions(delay_s=5))
        later.advance(5)

        def die(_: Sequence[str]) -> None:
            raise Unavailable("killed here")

        with monkeypatch.context() as killed:
            killed.setattr(delays, "complete", die)
            with pytest.raises(Unavailable):
                DelayMover(delays, lambda: producer).promote()

        # Its claim runs out, and the next one publishes the same again, under the same key
        later.advance(CLAIM_S)
        assert DelayMover(delays, lambda: producer).promote() == 1
        assert len(bench.drain(bench.receiver())) == 1
        assert delays.count() == 0
