"""A write is published once, whoever tries and however often, and keeps each key's order: :mod:`engine.bus.bulk`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from engine.bus.bulk import Appended, Lane, PublishesInBulk
from engine.bus.conformance.base import NOT_DECLARED, TransportTests, Workbench, bodies, numbered
from engine.bus.conformance.partitions import PARTITIONS, Partitions
from engine.bus.conformance.promises import keeps
from engine.bus.errors import KeyOfAnotherLane
from engine.bus.partitions import Partitioned
from engine.bus.transport import Outgoing, Priority, Transport
from engine.core.errors import BadInput

WINDOW_MS = 60_000
#: More than any store takes in one call.
MANY = 1_203


class Bulk:
    """The workbench's topic, written to in bulk."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.transport = cast(PublishesInBulk, bench.transport)

    def write(
        self,
        *texts: bytes,
        write: str = "w",
        run: str = "r",
        lane: str = "0",
        ordering_keys: Sequence[str] = (),
    ) -> Appended:
        """Each under its own text as idempotency key."""
        batch = [Outgoing("id", text, idempotency_key=text.decode()) for text in texts]
        return self.send(batch, write=write, run=run, lane=lane, ordering_keys=ordering_keys)

    def send(
        self,
        batch: Sequence[Outgoing],
        *,
        write: str = "w",
        run: str = "r",
        lane: str = "0",
        ordering_keys: Sequence[str] = (),
    ) -> Appended:
        return self.transport.publish_bulk(self.bench.topic, Lane(write, run, lane, WINDOW_MS), batch, ordering_keys)

    def read(self) -> list[bytes]:
        return bodies(self.bench.drain(self.bench.receiver()))


@keeps("K44")
class BulkConformance(TransportTests):
    @pytest.fixture
    def bulk(self, bench: Workbench) -> Bulk:
        if not isinstance(bench.transport, PublishesInBulk):
            pytest.skip(f"{NOT_DECLARED}publishing in bulk")
        return Bulk(bench)

    @pytest.mark.parametrize("count", [0, 1, MANY])
    def test_all_of_it_is_stored_in_order_and_counted_as_published(self, bulk: Bulk, count: int) -> None:
        assert bulk.write(*numbered(count)) == Appended(count, 0)

        assert bulk.read() == numbered(count)
        assert bulk.bench.admin.counts(bulk.bench.topic).get("published", 0) == count

    def test_what_is_stored_under_a_write_is_not_stored_again(self, bulk: Bulk) -> None:
        bulk.write(*numbered(3))

        assert bulk.write(*numbered(5)) == Appended(2, 3)
        assert bulk.write(*numbered(5), run="another", lane="7") == Appended(0, 5)

        assert bulk.read() == numbered(5)
        assert bulk.bench.admin.counts(bulk.bench.topic)["deduplicated"] == 8

    def test_another_write_stores_all_of_it_again(self, bulk: Bulk) -> None:
        bulk.write(b"a", b"b", write="first")

        assert bulk.write(b"a", b"b", write="second") == Appended(2, 0)
        assert bulk.read() == [b"a", b"b"] * 2

    def test_a_write_knows_nothing_of_single_publishes_and_they_nothing_of_it(self, bulk: Bulk) -> None:
        single = Outgoing("id", b"a", idempotency_key="a", idempotency_digest="d", idempotency_window_ms=WINDOW_MS)
        bulk.bench.transport.publish(bulk.bench.topic, [single])

        assert bulk.write(b"a", b"b", write="a") == Appended(2, 0)
        bulk.bench.transport.publish(bulk.bench.topic, [single])

        assert bulk.read() == [b"a", b"a", b"b"]

    def test_what_comes_twice_at_once_is_stored_once(self, bulk: Bulk) -> None:
        assert bulk.write(b"a", b"b", b"a", b"c", b"b") == Appended(3, 2)
        assert bulk.read() == [b"a", b"b", b"c"]

    def test_it_is_remembered_until_its_window_is_over(self, bulk: Bulk, pass_time: Callable[[float], None]) -> None:
        if not self.reads_clock:
            pytest.skip(f"{NOT_DECLARED}a clock")
        bulk.write(b"a")
        pass_time(0.9 * WINDOW_MS / 1000)
        bulk.write(b"b")
        pass_time(0.9 * WINDOW_MS / 1000)

        assert bulk.write(b"a") == Appended(0, 1)

    def test_a_write_belongs_to_its_topic_and_goes_with_it(self, bulk: Bulk) -> None:
        other = bulk.bench.make_topic()
        bulk.write(b"a", ordering_keys=["k"])
        lane = Lane("w", "r", "1", WINDOW_MS)
        batch = [Outgoing("id", b"a", idempotency_key="a")]

        assert bulk.transport.publish_bulk(other, lane, batch, ["k"]) == Appended(1, 0)
        bulk.bench.admin.delete_topic(bulk.bench.topic)
        bulk.bench.admin.create_topic(bulk.bench.topic)
        assert bulk.write(b"a", lane="1", ordering_keys=["k"]) == Appended(1, 0)

    def test_a_key_belongs_to_the_lane_that_named_it_first(self, bulk: Bulk) -> None:
        bulk.write(b"a", b"b", b"-", lane="0", ordering_keys=["k1", "k2", ""])

        with pytest.raises(KeyOfAnotherLane) as refused:
            bulk.write(b"x", b"y", lane="1", ordering_keys=["k3", "k2"])

        assert (refused.value.key, refused.value.field) == ("k2", "partitionkey")
        assert bulk.write(b"c", b"+", lane="0", ordering_keys=["k2", ""]) == Appended(2, 0)
        # Another run may be cut in another way.
        assert bulk.write(b"d", run="another", lane="1", ordering_keys=["k2"]) == Appended(1, 0)
        assert bulk.read() == [b"a", b"b", b"-", b"c", b"+", b"d"]

    def test_of_many_that_try_at_once_each_message_is_stored_once_and_in_order(self, bulk: Bulk) -> None:
        texts = numbered(700)

        def publish(_: int) -> int:
            return sum(bulk.write(*texts[start : start + 50]).stored for start in range(0, len(texts), 50))

        with ThreadPoolExecutor(8) as pool:
            stored = sum(pool.map(publish, range(8)))

        assert stored == len(texts)
        assert bulk.read() == texts

    def test_each_goes_to_its_priority(self, bulk: Bulk) -> None:
        if not bulk.bench.transport.capabilities.priority:
            pytest.skip(f"{NOT_DECLARED}priority")
        texts = {Priority.LOW: b"low", Priority.NORMAL: b"normal", Priority.HIGH: b"high"}
        bulk.send([Outgoing("id", text, priority, text.decode()) for priority, text in texts.items()])

        assert bulk.read() == [b"high", b"normal", b"low"]

    def test_each_goes_to_its_partition(self, bulk: Bulk, transport: Transport) -> None:
        if not isinstance(transport, Partitioned):
            pytest.skip(f"{NOT_DECLARED}partitions")
        parts = Partitions(bulk.bench, transport)
        texts = [b"%d" % number for number in range(3 * PARTITIONS)]
        bulk.send(
            [
                Outgoing("id", text, idempotency_key=text.decode(), partition=number % PARTITIONS)
                for number, text in enumerate(texts)
            ]
        )
        consumer = parts.consumer("c")
        consumer.turn(sit=True)

        found = [(each.partition, each.body) for each in consumer.receive(100, 1)]

        assert sorted(found) == sorted((int(text) % PARTITIONS, text) for text in texts)
        for partition in range(PARTITIONS):
            assert [body for at, body in found if at == partition] == texts[partition::PARTITIONS]
        parts.close()

    def test_what_is_too_large_ends_it_there(self, bulk: Bulk) -> None:
        large = b"x" * (bulk.bench.transport.capabilities.max_bytes + 1)
        batch = [Outgoing("id", body, idempotency_key=key) for key, body in (("a", b"a"), ("l", large), ("z", b"z"))]

        answer = bulk.send(batch)

        assert (answer.stored, answer.done, bool(answer.error)) == (1, 1, True)
        assert bulk.read() == [b"a"]

    def test_what_names_no_write_and_nothing_of_its_own_is_refused(self, bulk: Bulk) -> None:
        for lane, key, ordering_keys in (
            (Lane("", "r", "0", 1), "k", ()),
            (Lane("w", "", "0", 1), "k", ()),
            (Lane("w" * 201, "r", "0", 1), "k", ()),
            (Lane("w", "r", "0", 1), "", ()),
            (Lane("w", "r", "0", 1), "k", ("a", "b")),
        ):
            with pytest.raises(BadInput):
                bulk.transport.publish_bulk(
                    bulk.bench.topic, lane, [Outgoing("id", b"x", idempotency_key=key)], ordering_keys
                )
        assert bulk.read() == []
