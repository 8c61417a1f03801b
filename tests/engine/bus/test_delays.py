"""Delayed messages on the real store: never early, never lost, never twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import redis

from engine.bus.catalog import StaticCatalog
from engine.bus.config import BusConfig
from engine.bus.delay_entries import place_of
from engine.bus.delay_mover import DelayMover
from engine.bus.delays import BATCH, CLAIM_S, Cancelled, Delayed, RedisDelays, Whereabouts
from engine.bus.due import prepare_due
from engine.bus.errors import IdempotencyConflict, PublishFailed, PublishRefused
from engine.bus.message import Message, decode, encode
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Producer, Receipt
from engine.bus.transport import Outcome, Outgoing, Status
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from engine.core.store import open_client
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.kit import TOPIC, Bus, make_bus
from tests.engine.bus.transports.proxy import Proxy


@pytest.fixture
def bus(redis_bus: Bus) -> Bus:
    return redis_bus


@pytest.fixture
def producer(bus: Bus, delays: RedisDelays) -> Producer:
    return Producer(
        lambda _: bus.transport,
        StaticCatalog(bus.policy),
        source="/test",
        facts=bus.facts,
        clock=bus.clock,
        delays=delays,
    )


def there(bus: Bus) -> list[int]:
    return [decode(entry.body).json()["n"] for entry in bus.transport.admin.browse(TOPIC, limit=2_000).entries]


def test_a_message_is_published_when_it_is_due_and_not_before(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    receipt = producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=90, key="h1", headers={"tenant": "acme"}))
    assert delays.next_due_ms() == receipt.due_ms == clock.now_ms() + 90_000
    clock.advance(89.999)
    DelayMover(delays, lambda: producer).tick()
    assert (there(bus), delays.count(), delays.overdue()) == ([], 1, 0)
    clock.advance(0.001)
    assert delays.overdue() == 1
    DelayMover(delays, lambda: producer).tick()
    (entry,) = bus.transport.admin.browse(TOPIC).entries
    message = decode(entry.body)
    assert (message.id, message.partitionkey, message.extensions) == (receipt.message_id, "h1", {"tenant": "acme"})
    assert (delays.count(), delays.next_due_ms()) == (0, None)
    assert [fact.kind for fact in bus.facts.seen] == ["delayed", "published"]


def test_due_messages_come_in_the_order_of_their_due_times_in_any_number(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    count = BATCH + 50
    items = [BatchItem({"n": n}, PublishOptions(delay_s=1 + (n * 7 % count) / 1000)) for n in range(count)]
    assert all(isinstance(answer, Receipt) for answer in producer.publish_batch(TOPIC, items))
    assert delays.count() == count
    clock.advance(10)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == sorted(range(count), key=lambda n: n * 7 % count)
    assert delays.count() == 0


def test_a_mover_that_dies_between_publish_and_removal_doubles_nothing(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=5))
    clock.advance(5)

    def die(*_: Any) -> None:
        raise Unavailable("killed here")

    with monkeypatch.context() as dying:
        dying.setattr(delays, "complete", die)
        with pytest.raises(Unavailable):
            DelayMover(delays, lambda: producer).promote()
    assert there(bus) == [1]
    # Its claim keeps others away for a while, and then runs out.
    assert DelayMover(delays, lambda: producer).promote() == 0
    assert delays.count() == 1
    clock.advance(CLAIM_S)
    assert DelayMover(delays, lambda: producer).promote() == 1
    assert there(bus) == [1]
    assert delays.count() == 0


def test_a_mover_that_dies_before_the_publish_loses_nothing(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=5))
    clock.advance(5)
    assert len(delays.due()) == 1
    assert DelayMover(delays, lambda: producer).promote() == 0
    clock.advance(CLAIM_S)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == [1]


def test_what_the_store_does_not_take_is_tried_again(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=5))
    clock.advance(5)
    from engine.bus.transport import Outcome, Status

    publish = bus.transport.publish
    bus.transport.publish = lambda topic, batch: [  # type: ignore[method-assign]
        Outcome(Status.FAILED, item.message_id, error="away") for item in batch
    ]
    with pytest.raises(PublishFailed):
        DelayMover(delays, lambda: producer).promote()
    bus.transport.publish = publish  # type: ignore[method-assign]
    clock.advance(1)
    assert DelayMover(delays, lambda: producer).promote() == 1
    assert there(bus) == [1]


def test_what_the_bus_refuses_waits_holds_nobody_up_and_is_said(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    refused = producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=5))
    clock.advance(5)
    orphaned = Producer(
        lambda _: bus.transport, StaticCatalog(), source="/s", facts=bus.facts, clock=clock, delays=delays
    )
    DelayMover(delays, lambda: orphaned).tick()
    (told,) = [fact for fact in bus.facts.seen if fact.kind == "due_refused"]
    assert (told.message_id, told.error) == (refused.message_id, f"There is no topic {TOPIC!r}.")
    assert delays.count() == 1
    producer.publish(TOPIC, {"n": 2}, PublishOptions(delay_s=1))
    clock.advance(1)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == [2]
    clock.advance(60)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == [2, 1]


def test_what_was_meant_for_a_topic_that_was_deleted_is_not_published_to_its_namesake(
    bus: Bus, delays: RedisDelays, clock: ManualClock
) -> None:
    def producer_of(incarnation: str) -> Producer:
        policy = dataclasses.replace(bus.policy, incarnation=incarnation)
        catalog = StaticCatalog(policy)
        return Producer(lambda _: bus.transport, catalog, source="/test", facts=bus.facts, clock=clock, delays=delays)

    first, second = producer_of("1"), producer_of("2")
    producer_of("").publish(TOPIC, {"n": 1}, PublishOptions(delay_s=60))
    first.publish(TOPIC, {"n": 2}, PublishOptions(delay_s=60))
    first.publish(TOPIC, {"n": 3}, PublishOptions(delay_s=60, idempotency_key="k"))
    second.publish(TOPIC, {"n": 4}, PublishOptions(delay_s=60))
    clock.advance(61)
    assert DelayMover(delays, lambda: second).promote() == 4
    # What nobody knew the topic of is taken as meant for whatever has its name.
    assert sorted(there(bus)) == [1, 4]
    told = [fact.detail for fact in bus.facts.seen if fact.kind == "cancelled"]
    assert len(told) == 2
    assert all("was deleted; the one of this name now is another" in each for each in told)
    # And it is given up, not tried again for ever.
    clock.advance(3_600)
    assert DelayMover(delays, lambda: second).promote() == 0
    assert delays.next_due_ms() is None


def test_a_cancellation_has_a_definite_answer(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    first = producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=5))
    second = producer.publish(TOPIC, {"n": 2}, PublishOptions(delay_s=5))
    assert delays.cancel(TOPIC, "/test", first.message_id) is Cancelled.CANCELLED
    assert delays.cancel(TOPIC, "/test", first.message_id) is Cancelled.UNKNOWN
    clock.advance(5)
    (due,) = delays.due()
    assert due.place.decode() == place_of(TOPIC, "/test", second.message_id)
    assert delays.cancel(TOPIC, "/test", second.message_id) is Cancelled.TOO_LATE
    clock.advance(CLAIM_S)
    DelayMover(delays, lambda: producer).tick()
    assert delays.cancel(TOPIC, "/test", second.message_id) is Cancelled.UNKNOWN
    assert there(bus) == [2]


def test_an_idempotency_key_is_kept_once(producer: Producer, delays: RedisDelays, bus: Bus) -> None:
    options = PublishOptions(delay_s=5, idempotency_key="order-7")
    first = producer.publish(TOPIC, {"n": 1}, options)
    again = producer.publish(TOPIC, {"n": 1}, options)
    assert (again.status, again.message_id) == ("duplicate", first.message_id)
    with pytest.raises(IdempotencyConflict):
        producer.publish(TOPIC, {"n": 2}, options)
    assert delays.count() == 1
    assert [fact.kind for fact in bus.facts.seen] == ["delayed", "deduplicated"]


def test_scheduling_the_same_envelope_twice_keeps_it_once(producer: Producer, delays: RedisDelays) -> None:
    message = producer.prepare(TOPIC, {"n": 1}, PublishOptions(delay_s=5))
    for _ in range(2):
        (answer,) = producer.send(TOPIC, [message], idempotency_keys=[message.id])
        assert isinstance(answer, Receipt)
        assert (answer.status, answer.message_id) == ("delayed", message.id)
    assert delays.count() == 1


def test_delays_survive_a_restart_of_the_store(own_store: StandaloneStore, clock: ManualClock) -> None:
    bus = make_bus(BusConfig(url=own_store.url, prefix="p"), clock)
    client = open_client(own_store.url)
    delays = RedisDelays(client, "p", clock=clock)
    producer = Producer(
        lambda _: bus.transport, StaticCatalog(bus.policy), source="/s", facts=bus.facts, clock=clock, delays=delays
    )
    producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=400 * 86_400))
    own_store.stop()
    with pytest.raises(PublishFailed):
        producer.publish(TOPIC, {"n": 2}, PublishOptions(delay_s=5))
    for ask in (delays.count, delays.next_due_ms, delays.overdue, delays.due, lambda: delays.cancel(TOPIC, "/s", "x")):
        with pytest.raises(Unavailable):
            ask()
    own_store.start()
    clock.advance(400 * 86_400)
    assert DelayMover(delays, lambda: producer).promote() == 1
    assert there(bus) == [1]
    client.close()
    bus.transport.close()


@pytest.mark.parametrize("how", ["refuses", "is away"])
def test_a_topic_whose_store_takes_nothing_holds_up_no_other(  # noqa: PLR0917
    bus: Bus,
    delays: RedisDelays,
    clock: ManualClock,
    how: str,
    monkeypatch: pytest.MonkeyPatch,
    redis_url: str,
    prefix: str,
) -> None:
    gone = dataclasses.replace(bus.policy, name="a.gone", transport="gone")
    dead = make_bus(BusConfig(url=redis_url, prefix=f"{prefix}-gone"), clock)

    def publish(topic: str, batch: Sequence[Outgoing]) -> list[Outcome]:
        if how == "is away":
            raise Unavailable("there is no nsqd")
        return [Outcome(Status.FAILED, each.message_id, error="full") for each in batch]

    monkeypatch.setattr(dead.transport, "publish", publish)
    producer = Producer(
        lambda name: dead.transport if name == "gone" else bus.transport,
        StaticCatalog(gone, bus.policy),
        source="/s",
        facts=bus.facts,
        clock=clock,
        delays=delays,
    )
    for topic in (gone.name, TOPIC):
        producer.publish(topic, {"n": 1}, PublishOptions(delay_s=2))
    clock.advance(2)
    with pytest.raises(Unavailable):
        DelayMover(delays, lambda: producer).promote()
    assert there(bus) == [1]
    # It is tried again a second later, and not when its claim runs out.
    assert delays.count() == 1
    monkeypatch.undo()
    clock.advance(1)
    dead.transport.admin.create_topic(gone.name)
    DelayMover(delays, lambda: producer).promote()
    assert delays.count() == 0
    dead.transport.close()


def test_what_a_stranger_has_scheduled_holds_up_nobody(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    odd = Message(id="odd", source="/s", type="t", hbuspriority="urgent", hbusdue="soon")
    bodies = {"no-envelope": b"\xff", "no-due-time": encode(odd)}
    bodies["no-priority"] = encode(msgspec.structs.replace(odd, hbusdue="", data=msgspec.Raw(b'{"n":7}')))
    delays.schedule(TOPIC, [Delayed(name, "/s", body, clock.now_ms() + 1_000) for name, body in bodies.items()])
    producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=2))
    clock.advance(3)
    DelayMover(delays, lambda: producer).tick()
    # A priority that nobody knows is none; the two others wait where an operator sees them.
    assert sorted(there(bus)) == [1, 7]
    assert (delays.count(), delays.overdue()) == (2, 0)


def elsewhere(bus: Bus, delays: RedisDelays, topic: str) -> Producer:
    """A producer to which ``topic`` is known as well."""
    policies = [bus.policy, dataclasses.replace(bus.policy, name=topic)]
    for policy in policies:
        bus.transport.admin.create_topic(policy.name)
    return Producer(
        lambda _: bus.transport, StaticCatalog(*policies), source="/s", facts=bus.facts, clock=bus.clock, delays=delays
    )


def test_an_id_that_waits_in_another_topic_or_from_another_source_stands_in_nobodys_way(
    bus: Bus, delays: RedisDelays, clock: ManualClock
) -> None:
    """Found by a stranger: each was answered *delayed*, and all but the first of an id never came."""
    producer, later = elsewhere(bus, delays, "other"), PublishOptions(delay_s=5, message_id="order-1")
    far = msgspec.structs.replace(later, delay_s=700 * 86_400)
    producer.publish("other", {"n": 1}, far)
    producer.publish(TOPIC, {"n": 2}, later)
    producer.publish(TOPIC, {"n": 3}, msgspec.structs.replace(later, source="/billing"))
    assert delays.count() == 3
    names = [(TOPIC, "/s", "order-1"), (TOPIC, "/nobody", "order-1")]
    assert delays.standings(names) == [Whereabouts.KEPT, Whereabouts.GONE]
    clock.advance(5)
    DelayMover(delays, lambda: producer).tick()
    assert sorted(there(bus)) == [2, 3]
    assert (delays.count(), delays.overdue()) == (1, 0)
    assert delays.cancel(TOPIC, "/s", "order-1") is Cancelled.UNKNOWN
    assert delays.cancel("other", "/s", "order-1") is Cancelled.CANCELLED


def test_keys_that_others_chose_hold_back_no_delayed_message(
    bus: Bus, producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    producer.publish(TOPIC, {"n": 1}, PublishOptions(idempotency_key="inv-78"))
    producer.publish(TOPIC, {"n": 2}, PublishOptions(delay_s=5, message_id="inv-78"))
    producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=5, message_id="inv-79", source="inv-78"))
    clock.advance(5)
    DelayMover(delays, lambda: producer).tick()
    assert sorted(there(bus)) == [1, 1, 2]
    used = prepare_due(bus.policy, decode(bus.transport.admin.browse(TOPIC).entries[-1].body))
    assert not isinstance(used, PublishRefused)
    key = used.outgoing.idempotency_key
    with pytest.raises(PublishRefused, match="begins as keys of ours"):
        producer.publish(TOPIC, {"n": 3}, PublishOptions(idempotency_key=key))
    (answer,) = producer.send(TOPIC, [producer.prepare(TOPIC, {"n": 3})], idempotency_keys=[key])
    assert isinstance(answer, PublishRefused)


def test_another_message_of_one_that_waits_is_refused_and_its_repetition_is_not(
    producer: Producer, delays: RedisDelays, clock: ManualClock
) -> None:
    first = producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=90, message_id="a"))
    with pytest.raises(IdempotencyConflict, match="waits for its due time") as refused:
        producer.publish(TOPIC, {"n": 2}, PublishOptions(delay_s=5, message_id="a"))
    assert refused.value.field == "id"
    clock.advance(10)
    again = producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=5, message_id="a"))
    # It comes when it was to come, and the answer says so.
    assert (again.status, again.due_ms) == ("delayed", first.due_ms)
    assert (delays.count(), delays.next_due_ms()) == (1, first.due_ms)


#: What is no entry of ours, by the place where it lies.
NO_ENTRIES = {
    b"bad-1": b"\xc1garbage",
    b"\xff\x00": b"",
    b"deep": b"d\0\x93\xa1t\xc4\x01x\xa0" + b"\x91" * 20_000,
    place_of(TOPIC, "/test", "good").encode(): b"\x81\xa1a\x01",
}


def test_what_is_no_entry_holds_up_nobody(
    producer: Producer, delays: RedisDelays, bus: Bus, clock: ManualClock, prefix: str
) -> None:
    """Found by a stranger: what was claimed together with such a one was never published."""
    for place, entry in NO_ENTRIES.items():
        delays._store.hset(f"{prefix}:{{delays}}:entries", place, entry)
        delays._store.zadd(f"{prefix}:{{delays}}:waiting", {place: clock.now_ms() + 3_000})
    with pytest.raises(IdempotencyConflict):
        producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=3, message_id="good"))
    producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=3))
    clock.advance(3)
    DelayMover(delays, lambda: producer).tick()
    assert there(bus) == [1]
    # They are counted, and looked at again.
    assert (delays.count(), delays.overdue()) == (len(NO_ENTRIES), 0)
    clock.advance(60)
    assert delays.overdue() == len(NO_ENTRIES)
    # That at the place of a message is told as refused, by that place.
    assert [(item.place, item.body) for item in delays.due()] == [(place_of(TOPIC, "/test", "good").encode(), b"")]
    assert [(fact.kind, fact.message_id) for fact in bus.facts.seen if fact.error] == [("due_refused", "good")]


def test_asking_whether_messages_are_kept_reads_none_of_them(own_store: StandaloneStore, clock: ManualClock) -> None:
    """They may be a megabyte each."""
    with redis.Redis.from_url(own_store.url) as store:
        delays = RedisDelays(store, "p", clock=clock)
        names = [(TOPIC, "/s", f"m{number}") for number in range(20)]
        large = [Delayed(name, "/s", bytes(100_000), clock.now_ms() + 1_000) for _, _, name in names]
        assert {each.status for each in delays.schedule(TOPIC, large)} == {Status.OK}
        before = store.info("stats")["total_net_output_bytes"]
        assert set(delays.standings(names)) == {Whereabouts.KEPT}
        assert store.info("stats")["total_net_output_bytes"] - before < 100_000


def test_what_the_store_refused_was_certainly_not_kept(own_store: StandaloneStore, clock: ManualClock) -> None:
    with open_client(own_store.url) as store:
        delays = RedisDelays(store, "p", clock=clock)
        store.config_set("maxmemory-policy", "noeviction")
        store.config_set("maxmemory", 1)
        (outcome,) = delays.schedule(TOPIC, [Delayed("a", "/s", b"x", clock.now_ms() + 1_000)])
        assert (outcome.status, delays.count()) == (Status.FAILED, 0)
        assert "raise its memory limit" in outcome.remedy


def test_whether_it_was_kept_is_unknown_where_the_answer_was_lost(
    own_store: StandaloneStore, clock: ManualClock
) -> None:
    proxy = Proxy(own_store.port)
    with open_client(own_store.url.replace(str(own_store.port), str(proxy.port))) as store:
        delays = RedisDelays(store, "p", clock=clock)
        assert delays.count() == 0
        proxy.mode = "cut"
        (outcome,) = delays.schedule(TOPIC, [Delayed("a", "/s", b"x", clock.now_ms() + 1_000)])
        assert outcome.status is Status.UNKNOWN
    proxy.close()
