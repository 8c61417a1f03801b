"""An idempotency key is checked atomically with the append, inside its window."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from engine.bus.conformance.base import TransportTests, Workbench, bodies
from engine.bus.conformance.promises import keeps, needs
from engine.bus.transport import Outcome, Outgoing, Priority, Status

WINDOW_MS = 60_000


def keyed(
    key: str, body: bytes = b"x", *, message_id: str = "id", digest: str = "same", window_ms: int = WINDOW_MS
) -> Outgoing:
    return Outgoing(message_id, body, idempotency_key=key, idempotency_digest=digest, idempotency_window_ms=window_ms)


@keeps("K26")
@needs("idempotent_publish")
class IdempotencyConformance(TransportTests):
    def publish_one(self, bench: Workbench, message: Outgoing) -> Outcome:
        return bench.transport.publish(bench.topic, [message])[0]

    def test_a_repeat_is_stored_once_and_answered_with_the_original(self, bench: Workbench) -> None:
        # Given a message published under a key
        first = self.publish_one(bench, keyed("order-1", message_id="first"))

        # When it is published again under another id
        second = self.publish_one(bench, keyed("order-1", message_id="second"))

        # Then the answer names the first, and there is one message
        assert (first.status, second.status) == (Status.OK, Status.DUPLICATE)
        assert (second.message_id, second.position) == ("first", first.position)
        assert len(bench.drain(bench.receiver())) == 1

    def test_the_same_key_for_another_body_is_a_conflict_and_stores_nothing(self, bench: Workbench) -> None:
        first = self.publish_one(bench, keyed("order-1", b"one", message_id="first", digest="digest of one"))

        second = self.publish_one(bench, keyed("order-1", b"two", message_id="second", digest="digest of two"))

        assert second.status is Status.CONFLICT
        assert (second.message_id, second.position) == ("first", first.position)
        assert second.error
        assert bodies(bench.drain(bench.receiver())) == [b"one"]

    def test_after_the_window_the_key_is_free_again(self, bench: Workbench, pass_time: Callable[[float], None]) -> None:
        window_ms = WINDOW_MS if self.reads_clock else 1_000
        message = keyed("order-1", window_ms=window_ms)
        self.publish_one(bench, message)

        pass_time(0.5 * window_ms / 1000)
        assert self.publish_one(bench, message).status is Status.DUPLICATE
        pass_time(0.6 * window_ms / 1000)
        assert self.publish_one(bench, message).status is Status.OK

        assert len(bench.drain(bench.receiver())) == 2

    def test_a_repeat_within_one_batch_is_seen(self, bench: Workbench) -> None:
        batch = [keyed("a", b"1"), keyed("b", b"2"), keyed("a", b"1"), keyed("a", b"3", digest="other")]

        outcomes = bench.transport.publish(bench.topic, batch)

        statuses = [outcome.status for outcome in outcomes]
        assert statuses == [Status.OK, Status.OK, Status.DUPLICATE, Status.CONFLICT]
        assert outcomes[2].position == outcomes[0].position
        bench.expect(bench.drain(bench.receiver()), [b"1", b"2"])

    def test_a_key_belongs_to_its_topic(self, bench: Workbench) -> None:
        other = bench.make_topic()
        self.publish_one(bench, keyed("order-1"))

        assert bench.transport.publish(other, [keyed("order-1")])[0].status is Status.OK

    def test_a_deleted_topic_forgets_its_keys(self, bench: Workbench) -> None:
        self.publish_one(bench, keyed("order-[1]*"))

        bench.admin.delete_topic(bench.topic)
        bench.admin.create_topic(bench.topic)

        assert self.publish_one(bench, keyed("order-[1]*")).status is Status.OK

    def test_keys_and_ids_of_any_text_work(self, bench: Workbench) -> None:
        for key in ("plain", "with blanks: and {braces}", "Zeile\n2", "予約 🛎", "long" * 100):
            first = self.publish_one(bench, keyed(key, message_id=f"id of {key}", digest=f"digest of {key}"))
            second = self.publish_one(bench, keyed(key, message_id="another", digest=f"digest of {key}"))

            assert first.status is Status.OK
            assert (second.status, second.message_id) == (Status.DUPLICATE, f"id of {key}")
            assert second.position == first.position

    def test_long_keys_with_a_common_beginning_are_told_apart(self, bench: Workbench) -> None:
        long = "x" * 500

        assert self.publish_one(bench, keyed(long + "1")).status is Status.OK
        assert self.publish_one(bench, keyed(long + "2")).status is Status.OK

    @needs("browse", "priority")
    def test_the_original_of_another_priority_is_named_with_a_position_that_can_be_read(self, bench: Workbench) -> None:
        message = Outgoing("id", b"urgent", Priority.HIGH, "k", "d", WINDOW_MS)
        self.publish_one(bench, message)

        duplicate = self.publish_one(bench, message)

        stored = bench.admin.read(bench.topic, duplicate.position)
        assert stored is not None
        assert (stored.body, stored.priority) == (b"urgent", Priority.HIGH)

    def test_of_many_at_once_exactly_one_is_stored(self, bench: Workbench) -> None:
        # When 16 threads publish under the same 25 keys
        def publish_all(thread: int) -> list[Outcome]:
            batch = [keyed(f"k{index}", message_id=f"{thread}-{index}") for index in range(25)]
            return bench.transport.publish(bench.topic, batch)

        with ThreadPoolExecutor(16) as pool:
            answers = [outcome for outcomes in pool.map(publish_all, range(16)) for outcome in outcomes]

        # Then each key was stored once, and everybody else was told by whom
        stored = {outcome.message_id for outcome in answers if outcome.status is Status.OK}
        assert len(stored) == 25
        assert {outcome.message_id for outcome in answers} == stored
        assert len(bench.drain(bench.receiver())) == 25
