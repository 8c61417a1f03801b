"""Every message of a batch gets an answer of its own, in order."""

from __future__ import annotations

from engine.bus.conformance.base import TransportTests, Workbench, numbered
from engine.bus.conformance.promises import needs
from engine.bus.transport import Status


class PublishConformance(TransportTests):
    def test_outcomes_answer_the_batch_in_order(self, bench: Workbench) -> None:
        batch = [bench.outgoing(body) for body in numbered(5)]

        outcomes = bench.transport.publish(bench.topic, batch)

        assert [outcome.message_id for outcome in outcomes] == [message.message_id for message in batch]
        assert {outcome.status for outcome in outcomes} == {Status.OK}

    @needs("browse")
    def test_each_outcome_has_a_position_of_its_own(self, bench: Workbench) -> None:
        assert len({outcome.position for outcome in bench.publish(*numbered(5))}) == 5

    def test_an_empty_batch_is_answered_with_nothing(self, bench: Workbench) -> None:
        assert bench.transport.publish(bench.topic, []) == []

    def test_a_batch_of_thousands_is_stored_whole(self, bench: Workbench) -> None:
        bench.publish(*numbered(2_345))

        bench.expect(bench.drain(bench.receiver()), numbered(2_345))

    @needs("browse")
    def test_a_message_can_be_read_back_at_its_position(self, bench: Workbench) -> None:
        outcome = bench.publish(b"first", b"second")[1]

        stored = bench.admin.read(bench.topic, outcome.position)

        assert stored is not None
        assert stored.body == b"second"
        assert stored.position == outcome.position
        assert stored.at_ms == bench.clock.now_ms()
