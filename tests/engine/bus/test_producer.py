from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.delays import Delayed
from engine.bus.errors import (
    IdempotencyConflict,
    OwnerlessTopic,
    ProducerClosed,
    PublishFailed,
    PublishRefused,
    PublishUnknown,
    UnknownTopic,
)
from engine.bus.message import Message, decode
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Producer, Receipt
from engine.bus.transport import Outcome, Outgoing, Priority, Status
from engine.core.clock import ManualClock, to_rfc3339
from engine.core.ids import parse_traceparent
from tests.engine.bus.kit import TOPIC, Bus, make_bus


class Booking(msgspec.Struct):
    hotel: str
    nights: int


class KeptDelays:
    """A delay path that only remembers."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Delayed]] = []

    def schedule(self, topic: str, batch: Any) -> list[Outcome]:
        self.kept += [(topic, item) for item in batch]
        return [Outcome(Status.OK, item.message_id) for item in batch]

    def taken(self, topic: str, batch: Any) -> list[bool]:
        return [False] * len(batch)


class NightsMustBePositive:
    uri = "https://hbus.example/schemas/booking/3"

    def problem(self, payload: Any) -> tuple[str, str] | None:
        return ("nights", "must be more than 0") if payload.get("nights", 0) < 1 else None


def stored(bus: Bus) -> list[Message]:
    return [decode(entry.body) for entry in bus.transport.admin.browse(TOPIC).entries]


def test_a_publish_stores_a_complete_envelope(bus: Bus) -> None:
    receipt = bus.producer.publish(TOPIC, Booking("Algarve", 3), PublishOptions(key="h1", headers={"tenant": "acme"}))
    (message,) = stored(bus)
    assert receipt == Receipt(message.id, TOPIC, receipt.position, "stored")
    assert message.json() == {"hotel": "Algarve", "nights": 3}
    assert (message.source, message.type, message.partitionkey) == ("/test", TOPIC, "h1")
    assert message.time == to_rfc3339(bus.clock.now_ms())
    assert message.datacontenttype == "application/json"
    assert message.dataclassification == "internal"
    assert message.correlationid == message.id
    assert message.extensions == {"tenant": "acme"}
    assert parse_traceparent(message.traceparent)


def test_a_publish_is_a_fact(bus: Bus) -> None:
    receipt = bus.publish({"n": 1}, key="k", correlation_id="c", causation_id="a", type="t")
    (fact,) = bus.facts.seen
    (message,) = stored(bus)
    assert (fact.kind, fact.topic, fact.message_id, fact.position) == (
        "published",
        TOPIC,
        receipt.message_id,
        receipt.position,
    )
    assert (fact.key, fact.correlation_id, fact.causation_id, fact.type, fact.source) == ("k", "c", "a", "t", "/test")
    assert fact.trace_id == message.traceparent[3:35]
    assert fact.size > 0
    assert fact.node == "n1"


def test_an_unknown_and_an_ownerless_topic_are_refused(bus: Bus) -> None:
    with pytest.raises(UnknownTopic):
        bus.producer.publish("nowhere", {})
    producer = Producer(
        lambda _: bus.transport, StaticCatalog(TopicPolicy("orphan", owner="")), source="/s", facts=bus.facts
    )
    for publish in (
        lambda: producer.publish("orphan", {}),
        lambda: producer.publish_batch("orphan", [BatchItem({})]),
        lambda: producer.prepare("orphan", {}),
        lambda: producer.send("orphan", []),
    ):
        with pytest.raises(OwnerlessTopic) as refused:
            publish()
        assert refused.value.field == "topic"
    assert bus.transport.calls("publish") == 0
    assert bus.facts.seen == []


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"headers": {"Tenant": "x"}}, "headers.Tenant"),
    ({"headers": {"tenant": 5}}, "headers.tenant"),
    ({"headers": {"tenant": "a\nb"}}, "headers.tenant"),
    ({"headers": {"tenant": "\ud800"}}, "headers.tenant"),
    ({"headers": {"tenant": "x" * 4_097}}, "headers.tenant"),
    ({"headers": {"subject": "x"}}, "headers.subject"),
    ({"headers": {"hbusx": "x"}}, "headers.hbusx"),
    ({"headers": {f"h{n}": "x" for n in range(51)}}, "headers"),
    ({"key": "k" * 201}, "key"),
    ({"key": None}, "key"),
    ({"key": 5}, "key"),
    ({"type": "t" * 201}, "type"),
    ({"message_id": "m" * 65}, "message_id"),
    ({"causation_id": "m" * 65}, "causation_id"),
    ({"correlation_id": "c" * 129}, "correlation_id"),
    ({"source": "s" * 301}, "source"),
    ({"subject": "a\tb"}, "subject"),
    ({"idempotency_key": "k" * 513}, "idempotency_key"),
    ({"priority": "urgent"}, "priority"),
    ({"ttl_s": 0}, "ttl_s"),
    ({"ttl_s": -1}, "ttl_s"),
    ({"ttl_s": float("nan")}, "ttl_s"),
    ({"ttl_s": 1e12}, "ttl_s"),
    ({"delay_s": -1}, "delay_s"),
    ({"delay_s": float("nan")}, "delay_s"),
    ({"delay_s": 730 * 86_400 + 1}, "delay_s"),
    ({"delay_s": 5, "due": datetime(2027, 1, 1, tzinfo=UTC)}, "due"),
    ({"due": datetime(2036, 1, 1, tzinfo=UTC)}, "due"),
    ({"due": datetime(2027, 1, 1)}, "due"),  # noqa: DTZ001
    ({"time": datetime(2027, 1, 1)}, "time"),  # noqa: DTZ001
]


@pytest.mark.parametrize(("options", "field"), REFUSALS, ids=[f"{field}-{n}" for n, (_, field) in enumerate(REFUSALS)])
def test_bad_options_are_refused_by_field_and_leave_nothing_behind(
    bus: Bus, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(PublishRefused) as refused:
        bus.publish({"n": 1}, **options)
    assert refused.value.field == field
    assert refused.value.remedy
    assert bus.transport.calls("publish") == 0
    assert bus.facts.seen == []


@pytest.mark.parametrize("payload", [{1, 2, object()}, object(), {"x": object()}])
def test_a_payload_that_is_no_json_is_refused(bus: Bus, payload: Any) -> None:
    with pytest.raises(PublishRefused) as refused:
        bus.producer.publish(TOPIC, payload)
    assert refused.value.field == "payload"


def test_a_schema_judges_what_would_be_read(clock: ManualClock) -> None:
    bus = make_bus(BusConfig(type="memory"), clock, schema=NightsMustBePositive())
    bus.producer.publish(TOPIC, Booking("Algarve", 3))
    assert stored(bus)[0].dataschema == NightsMustBePositive.uri
    for refuse in (
        lambda: bus.producer.publish(TOPIC, Booking("Algarve", 0)),
        lambda: bus.producer.publish_raw(TOPIC, b'{"nights": 0}', content_type="application/json"),
    ):
        with pytest.raises(PublishRefused, match="must be more than 0") as refused:
            refuse()
        assert refused.value.field == "payload.nights"
    with pytest.raises(PublishRefused, match="not JSON"):
        bus.producer.publish_raw(TOPIC, b"\x00")
    assert len(stored(bus)) == 1


def test_raw_bytes_are_kept_and_raw_json_is_json(bus: Bus) -> None:
    bus.producer.publish_raw(TOPIC, b"\x00\xff", PublishOptions(key="k"), content_type="image/png")
    bus.producer.publish_raw(TOPIC, b'{"a": 1.50}', content_type="application/vnd.x+json; charset=utf-8")
    image, text = stored(bus)
    assert (image.payload(), image.datacontenttype, image.partitionkey) == (b"\x00\xff", "image/png", "k")
    assert (text.payload(), text.json()) == (b'{"a": 1.50}', {"a": 1.5})
    with pytest.raises(PublishRefused, match="not JSON") as refused:
        bus.producer.publish_raw(TOPIC, b"{", content_type="application/json")
    assert refused.value.field == "body"
    with pytest.raises(PublishRefused, match="not bytes"):
        bus.producer.publish_raw(TOPIC, "text")  # type: ignore[arg-type]


def test_the_topics_size_limit_counts_the_whole_envelope(clock: ManualClock) -> None:
    bus = make_bus(BusConfig(type="memory"), clock, max_bytes=500)
    bus.publish({"x": "a" * 50})
    for refuse in (lambda: bus.publish({"x": "a" * 500}), lambda: bus.producer.prepare(TOPIC, {"x": "a" * 500})):
        with pytest.raises(PublishRefused, match="takes 500") as refused:
            refuse()
        assert refused.value.field == "payload"
    assert len(stored(bus)) == 1


def test_a_ttl_counts_from_the_due_time_and_topics_have_a_default(clock: ManualClock) -> None:
    bus = make_bus(BusConfig(type="memory"), clock, ttl_s=60)
    now_ms = clock.now_ms()
    assert bus.producer.prepare(TOPIC, {}).expirytime == to_rfc3339(now_ms + 60_000)
    assert bus.producer.prepare(TOPIC, {}, PublishOptions(ttl_s=5)).expirytime == to_rfc3339(now_ms + 5_000)
    delayed = bus.producer.prepare(TOPIC, {}, PublishOptions(ttl_s=5, delay_s=100))
    assert delayed.expirytime == to_rfc3339(now_ms + 105_000)


def test_an_idempotency_key_is_stored_once(any_bus: Bus) -> None:
    first = any_bus.publish({"n": 1}, idempotency_key="order-7")
    again = any_bus.publish({"n": 1}, idempotency_key="order-7")
    assert (again.status, again.message_id, again.position) == ("duplicate", first.message_id, first.position)
    assert len(stored(any_bus)) == 1
    assert [fact.kind for fact in any_bus.facts.seen] == ["published", "deduplicated"]


@pytest.mark.parametrize("other", [{"payload": {"n": 2}}, {"type": "other"}, {"key": "other"}])
def test_an_idempotency_key_with_another_type_payload_or_key_is_a_conflict(bus: Bus, other: dict[str, Any]) -> None:
    bus.publish({"n": 1}, idempotency_key="order-7")
    with pytest.raises(IdempotencyConflict) as refused:
        bus.publish(**{"payload": {"n": 1}, "idempotency_key": "order-7", **other})
    assert refused.value.field == "idempotency_key"
    assert len(stored(bus)) == 1


def test_headers_and_trace_are_no_part_of_what_a_key_stands_for(bus: Bus) -> None:
    bus.publish({"n": 1}, idempotency_key="order-7", headers={"tenant": "a"})
    assert bus.publish({"n": 1}, idempotency_key="order-7", headers={"tenant": "b"}).status == "duplicate"


def test_a_batch_answers_each_item_in_its_place(bus: Bus) -> None:
    bus.publish({"n": 0}, idempotency_key="taken")
    answers = bus.producer.publish_batch(
        TOPIC,
        [
            BatchItem({"n": 1}),
            BatchItem({"n": 2}, PublishOptions(delay_s=-1)),
            BatchItem({"n": 3}, PublishOptions(idempotency_key="taken")),
            BatchItem({"n": 0}, PublishOptions(idempotency_key="taken")),
            BatchItem(body=b"x"),
        ],
    )
    assert [type(answer).__name__ for answer in answers] == [
        "Receipt",
        "PublishRefused",
        "IdempotencyConflict",
        "Receipt",
        "Receipt",
    ]
    assert [str(answer.status) for answer in answers if isinstance(answer, Receipt)] == [
        "stored",
        "duplicate",
        "stored",
    ]
    assert len(stored(bus)) == 3


def test_a_large_batch_goes_in_chunks_and_keeps_its_order(bus: Bus) -> None:
    answers = bus.producer.publish_batch(TOPIC, [BatchItem({"n": n}) for n in range(1_201)])
    assert bus.transport.calls("publish") == 3
    assert len({answer.message_id for answer in answers if isinstance(answer, Receipt)}) == 1_201
    page = bus.transport.admin.browse(TOPIC, limit=2_000).entries
    assert [decode(entry.body).json()["n"] for entry in page] == list(range(1_201))


def test_a_chunk_is_also_bounded_in_bytes(clock: ManualClock) -> None:
    bus = make_bus(BusConfig(type="memory"), clock)
    bus.producer.publish_batch(TOPIC, [BatchItem({"x": "a" * 900_000}) for _ in range(9)])
    assert bus.transport.calls("publish") == 3


class OutcomeTransport:
    """Answers every publish with one status."""

    name = "outcome"

    def __init__(self, bus: Bus, status: Status) -> None:
        self.capabilities = bus.transport.capabilities
        self._status = status

    def publish(self, topic: str, batch: list[Outgoing]) -> list[Outcome]:
        return [Outcome(self._status, item.message_id, error="the wire broke") for item in batch]


@pytest.mark.parametrize(
    ("status", "error", "advice"),
    [(Status.FAILED, PublishFailed, "again"), (Status.UNKNOWN, PublishUnknown, "same idempotency key")],
)
def test_failed_and_unknown_are_told_apart(bus: Bus, status: Status, error: type[Exception], advice: str) -> None:
    transport: Any = OutcomeTransport(bus, status)
    producer = Producer(lambda _: transport, StaticCatalog(bus.policy), source="/s", facts=bus.facts)
    with pytest.raises(error, match="the wire broke") as raised:
        producer.publish(TOPIC, {})
    assert advice in str(raised.value)
    assert [fact.kind for fact in bus.facts.seen] == ["publish_failed"]


def delaying(bus: Bus) -> tuple[Producer, KeptDelays]:
    delays = KeptDelays()
    producer = Producer(
        lambda _: bus.transport,
        StaticCatalog(bus.policy),
        source="/s",
        facts=bus.facts,
        clock=bus.clock,
        delays=delays,
    )
    return producer, delays


def test_what_is_due_later_goes_to_the_delay_path(bus: Bus) -> None:
    producer, delays = delaying(bus)
    now_ms = bus.clock.now_ms()
    receipt = producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=90, idempotency_key="k"))
    assert (receipt.status, receipt.due_ms, receipt.position) == ("delayed", now_ms + 90_000, "")
    ((topic, kept),) = delays.kept
    assert (topic, kept.due_ms, kept.idempotency_key) == (TOPIC, now_ms + 90_000, "k")
    assert kept.digest
    assert decode(kept.body).hbusdue == to_rfc3339(now_ms + 90_000)
    assert stored(bus) == []
    (fact,) = bus.facts.seen
    assert (fact.kind, fact.due_ms) == ("delayed", now_ms + 90_000)


def test_what_was_due_already_is_published_at_once(bus: Bus) -> None:
    producer, delays = delaying(bus)
    past = datetime.fromtimestamp(bus.clock.now_ms() / 1000, UTC) - timedelta(days=3)
    assert producer.publish(TOPIC, {}, PublishOptions(due=past)).status == "stored"
    assert producer.publish(TOPIC, {}, PublishOptions(delay_s=0)).status == "stored"
    assert delays.kept == []


def test_without_a_delay_path_a_delay_is_refused(bus: Bus) -> None:
    with pytest.raises(PublishRefused, match="no delay path") as refused:
        bus.publish({}, delay_s=5)
    assert refused.value.field == "due"
    assert stored(bus) == []


def test_a_prepared_envelope_is_sent_as_it_is(bus: Bus) -> None:
    message = bus.producer.prepare(TOPIC, {"n": 1}, PublishOptions(priority=Priority.HIGH, headers={"a": "b"}))
    assert stored(bus) == []
    assert bus.facts.seen == []
    (answer,) = bus.producer.send(TOPIC, [message], idempotency_keys=[message.id])
    (again,) = bus.producer.send(TOPIC, [message], idempotency_keys=[message.id])
    assert isinstance(answer, Receipt)
    assert isinstance(again, Receipt)
    assert (answer.status, again.status) == ("stored", "duplicate")
    assert stored(bus) == [message]
    with pytest.raises(ValueError, match="2 idempotency keys for 1 messages"):
        bus.producer.send(TOPIC, [message], idempotency_keys=["a", "b"])


def test_a_given_traceparent_is_kept_and_a_malformed_one_begins_a_new_trace(bus: Bus) -> None:
    good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert bus.producer.prepare(TOPIC, {}, PublishOptions(traceparent=good)).traceparent == good
    made = bus.producer.prepare(TOPIC, {}, PublishOptions(traceparent="rubbish")).traceparent
    assert parse_traceparent(made)


def test_a_closed_producer_says_so(bus: Bus) -> None:
    bus.producer.close()
    bus.producer.close()
    with pytest.raises(ProducerClosed, match="closed"):
        bus.publish({})
    assert stored(bus) == []


def test_close_waits_for_running_publishes(bus: Bus) -> None:
    inside, go_on = threading.Event(), threading.Event()
    publish = bus.transport.publish

    def slow(topic: str, batch: Any) -> list[Outcome]:
        inside.set()
        assert go_on.wait(10)
        return publish(topic, batch)

    bus.transport.publish = slow  # type: ignore[method-assign]
    publisher = threading.Thread(target=lambda: bus.publish({}))
    publisher.start()
    assert inside.wait(10)
    closer = threading.Thread(target=bus.producer.close, args=(10.0,))
    closer.start()
    go_on.set()
    closer.join(10)
    assert len(stored(bus)) == 1
    publisher.join()
