"""One call of a producer in several chunks: who is answered what, and when chunks may overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.chunking import CHUNK_MESSAGES
from engine.bus.config import BusConfig
from engine.bus.conformance.running import FactRecorder
from engine.bus.errors import PublishFailed, PublishRefused, PublishUnknown
from engine.bus.message import decode
from engine.bus.options import PublishOptions
from engine.bus.producer import OVERLAPPED_CHUNK, BatchItem, Producer, Receipt
from engine.bus.registry import open_transport
from engine.bus.transport import Outcome, Outgoing, Overlapping, Status
from engine.core.clock import ManualClock
from tests.engine.bus.kit import TOPIC, FaultyTransport


class Broken(FaultyTransport):
    """Takes a number of chunks and then nothing."""

    def __init__(self, inner: Any, takes: int, status: Status = Status.FAILED) -> None:
        super().__init__(inner)
        self._takes = takes
        self._status = status

    def publish(self, topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        if self.calls("publish") < self._takes:
            return super().publish(topic, batch)
        self.called("publish")
        return [Outcome(self._status, each.message_id, error="gone") for each in batch]


class Overlapped(FaultyTransport):
    """Offers chunks and notes how large they were."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.sizes: list[int] = []

    def publish_chunks(self, topic: str, chunks: Iterator[Sequence[Outgoing]]) -> Iterator[list[Outcome]]:
        for chunk in chunks:
            self.sizes.append(len(chunk))
            yield self.inner.publish(topic, chunk)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[Any]:
    made = open_transport(BusConfig(type="memory"), clock)
    made.admin.create_topic(TOPIC)
    yield made
    made.close()


def producer_on(transport: Any, clock: ManualClock, *, ordering: str = "none") -> tuple[Producer, FactRecorder]:
    facts = FactRecorder()
    policy = TopicPolicy(TOPIC, "team", ordering=ordering, max_bytes=2_000)
    return Producer(lambda _: transport, StaticCatalog(policy), source="/test", facts=facts, clock=clock), facts


def items(number: int) -> list[BatchItem]:
    return [BatchItem({"n": index}) for index in range(number)]


def test_every_message_is_answered_in_its_place_over_several_chunks(memory: Any, clock: ManualClock) -> None:
    # Given a batch of several chunks in which every seventh is refused
    transport = Overlapped(memory)
    producer, facts = producer_on(transport, clock)
    batch = items(400)
    for index in range(0, 400, 7):
        batch[index] = BatchItem({"n": index}, PublishOptions(headers={"NOT": "allowed"}))

    answers = producer.publish_batch(TOPIC, batch)

    assert len(answers) == 400
    for index, answer in enumerate(answers):
        assert isinstance(answer, PublishRefused if index % 7 == 0 else Receipt), index
    entries = memory.admin.browse(TOPIC, limit=1_000).entries
    by_position = {entry.position: decode(entry.body) for entry in entries}
    for index, answer in enumerate(answers):
        if isinstance(answer, Receipt):
            assert by_position[answer.position].id == answer.message_id
            assert by_position[answer.position].json() == {"n": index}
    accepted = 400 - len(range(0, 400, 7))
    assert [fact.kind for fact in facts.seen] == ["published"] * accepted
    assert transport.sizes == [OVERLAPPED_CHUNK] * 3 + [accepted - 3 * OVERLAPPED_CHUNK]


class Watched(list[BatchItem]):
    """Notes how far it was read."""

    read = 0

    def __getitem__(self, at: Any) -> Any:
        self.read = max(self.read, at.stop)
        return super().__getitem__(at)


def test_the_store_has_a_chunk_before_the_next_is_made(memory: Any, clock: ManualClock) -> None:
    batch, read = Watched(items(3 * OVERLAPPED_CHUNK)), []

    class Noting(Overlapped):
        def publish_chunks(self, topic: str, chunks: Iterator[Sequence[Outgoing]]) -> Iterator[list[Outcome]]:
            for chunk in chunks:
                read.append(batch.read)
                yield self.inner.publish(topic, chunk)

    producer, _ = producer_on(Noting(memory), clock)

    producer.publish_batch(TOPIC, batch)

    assert read == [OVERLAPPED_CHUNK, 2 * OVERLAPPED_CHUNK, 3 * OVERLAPPED_CHUNK]


def test_an_ordered_topic_waits_for_each_chunk(memory: Any, clock: ManualClock) -> None:
    transport = Overlapped(memory)
    assert isinstance(transport, Overlapping)
    producer, _ = producer_on(transport, clock, ordering="key")

    producer.publish_batch(TOPIC, items(CHUNK_MESSAGES + 1))

    assert transport.sizes == []
    assert transport.calls("publish") == 2


@pytest.mark.parametrize(("status", "error"), [(Status.FAILED, PublishFailed), (Status.UNKNOWN, PublishUnknown)])
def test_nothing_is_sent_after_a_chunk_that_was_lost(
    memory: Any, clock: ManualClock, status: Status, error: type[Exception]
) -> None:
    transport = Broken(memory, takes=1, status=status)
    producer, facts = producer_on(transport, clock)

    answers = producer.publish_batch(TOPIC, items(4 * CHUNK_MESSAGES))

    assert [type(answer) for answer in answers] == [Receipt] * CHUNK_MESSAGES + [error] * CHUNK_MESSAGES + [
        PublishFailed
    ] * 2 * CHUNK_MESSAGES
    assert "messages before it failed" in str(answers[-1])
    assert transport.calls("publish") == 2
    lost = facts.seen[CHUNK_MESSAGES:]
    assert [(fact.kind, fact.size) for fact in lost] == [("publish_failed", CHUNK_MESSAGES)] * 3
    assert lost[0].error == "gone"


def test_large_messages_make_smaller_chunks(memory: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.bus.producer.CHUNK_BYTES", 3_000)
    transport = Overlapped(memory)
    producer, _ = producer_on(transport, clock)

    answers = producer.publish_batch(TOPIC, [BatchItem({"text": "x" * 1_200})] * (OVERLAPPED_CHUNK + 1))

    assert all(isinstance(answer, Receipt) for answer in answers)
    assert set(transport.sizes) == {1}


def test_a_callers_mistake_is_no_failed_publish(memory: Any, clock: ManualClock) -> None:
    producer, facts = producer_on(memory, clock)
    same = PublishOptions(idempotency_key="k")
    producer.publish_batch(TOPIC, [BatchItem({"n": 1}, same), BatchItem({"n": 2}, same)])
    assert facts.kinds() == ["published"]


@pytest.mark.parametrize(("at_least_s", "then"), [(0, "stored"), (7_200, "duplicate")])
def test_whoever_may_come_back_late_has_its_keys_remembered_for_longer(
    memory: Any, clock: ManualClock, at_least_s: int, then: str
) -> None:
    policy = TopicPolicy(TOPIC, owner="inventory", idempotency_window_s=60)
    producer = Producer(
        lambda _: memory, StaticCatalog(policy), source="/t", facts=FactRecorder(), clock=clock, node="n"
    )
    message = producer.prepare(TOPIC, {"n": 1})
    way = producer.way(TOPIC, meant="")
    way.send([message], ["key"], at_least_s=at_least_s)
    clock.advance(3_600)
    (answer,) = way.send([message], ["key"], at_least_s=at_least_s)
    assert isinstance(answer, Receipt)
    assert answer.status == then
