"""A message that is refused when it is due is kept, told of, and goes out by itself once the cause is mended."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.delay_entries import place_of
from engine.bus.delay_mover import DelayMover
from engine.bus.delay_refusals import FIRST_PAUSE_S, LONGEST_PAUSE_S
from engine.bus.delays import Cancelled, RedisDelays, Whereabouts
from engine.bus.facts import Fact
from engine.bus.message import decode
from engine.bus.options import PublishOptions
from engine.bus.producer import Producer
from engine.bus.registry import open_transport
from engine.bus.transport import Transport
from engine.core.clock import ManualClock
from tests.engine.bus.kit import TOPIC, Bus

LARGE = {"text": "x" * 3_000}
TOO_LARGE = "topic 'booking.created' takes 1,024 bytes."


@pytest.fixture
def bus(redis_bus: Bus) -> Bus:
    return redis_bus


Told = Callable[[str], list[Fact]]


class Rules:
    """A producer, and the rules of its topic as they are set by and by; ``None``: there is none."""

    def __init__(self, bus: Bus, delays: RedisDelays) -> None:
        self._bus = bus
        self._delays = delays
        self.mover = DelayMover(delays, lambda: self.producer)
        self.set()

    def set(self, **changed: object) -> None:
        self._open(dataclasses.replace(self._bus.policy, incarnation="1", **changed))  # type: ignore[arg-type]

    def delete(self) -> None:
        self._open(None)

    def _open(self, policy: TopicPolicy | None) -> None:
        self.producer = Producer(
            lambda _: self._bus.transport,
            StaticCatalog(policy) if policy else StaticCatalog(),
            source="/test",
            facts=self._bus.facts,
            clock=self._bus.clock,
            delays=self._delays,
            node="n1",
        )

    def keep(self, payload: object = LARGE, delay_s: float = 8) -> str:
        return self.producer.publish(TOPIC, payload, PublishOptions(delay_s=delay_s, key="k")).message_id


@pytest.fixture
def rules(bus: Bus, delays: RedisDelays) -> Rules:
    return Rules(bus, delays)


@pytest.fixture
def told(bus: Bus) -> Told:
    return lambda kind: [fact for fact in bus.facts.seen if fact.kind == kind]


def there(bus: Bus) -> list[str]:
    return [decode(entry.body).id for entry in bus.transport.admin.browse(TOPIC, limit=2_000).entries]


def test_it_is_told_once_kept_and_published_when_the_limit_is_raised(
    bus: Bus, rules: Rules, delays: RedisDelays, clock: ManualClock, told: Told
) -> None:
    one, other = rules.keep(), rules.keep()
    rules.set(max_bytes=1_024)
    clock.advance(8)
    rules.mover.tick()
    since_ms = clock.now_ms()
    facts = told("due_refused")
    assert [fact.message_id for fact in facts] == [one, other]
    assert (facts[0].topic, facts[0].source, facts[0].key, facts[0].node) == (TOPIC, "/test", "k", "n1")
    assert facts[0].error.endswith(TOO_LARGE)
    assert (facts[0].attempt, facts[0].due_ms) == (1, since_ms + 60_000)
    assert "raise the topic's limit" in facts[0].detail
    for _ in range(10):
        clock.advance(LONGEST_PAUSE_S)
        rules.mover.tick()
    # A reason is told once, and how it stands can be asked for.
    assert len(told("due_refused")) == 2
    (stands,) = delays.refusals.at([place_of(TOPIC, "/test", one)])
    assert stands is not None
    assert (stands.topic, stands.since_ms, stands.tries) == (TOPIC, since_ms, 11)
    assert (stands.why.endswith(TOO_LARGE), stands.next_ms) == (True, clock.now_ms() + 600_000)
    assert delays.standings([(TOPIC, "/test", one)]) == [Whereabouts.KEPT]
    of_topic = delays.refusals.by_topic()[TOPIC]
    assert (of_topic.count, of_topic.since_ms, of_topic.why) == (2, since_ms, stands.why)
    rules.set(max_bytes=100_000)
    clock.advance(LONGEST_PAUSE_S)
    rules.mover.tick()
    assert there(bus) == [one, other]
    assert delays.refusals.by_topic() == {}
    assert (delays.refusals.at([place_of(TOPIC, "/test", one)]), delays.count()) == ([None], 0)


def test_the_pauses_grow_up_to_the_longest(rules: Rules, delays: RedisDelays, clock: ManualClock) -> None:
    rules.keep()
    rules.set(owner="")
    clock.advance(8)
    pauses = []
    for _ in range(7):
        rules.mover.tick()
        next_ms = delays.next_due_ms()
        assert next_ms is not None
        pauses.append((next_ms - clock.now_ms()) / 1000)
        clock.advance(pauses[-1])
    assert pauses == [FIRST_PAUSE_S, 120, 240, 480, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_another_reason_is_told_as_well(rules: Rules, delays: RedisDelays, clock: ManualClock, told: Told) -> None:
    rules.keep()
    rules.set(owner="")
    clock.advance(8)
    rules.mover.tick()
    rules.set(max_bytes=1_024)
    clock.advance(60)
    rules.mover.tick()
    assert [fact.error.partition(" ")[0] for fact in told("due_refused")] == ["Topic", "The"]
    (of_topic,) = delays.refusals.by_topic().values()
    assert (of_topic.count, of_topic.why.endswith(TOO_LARGE)) == (1, True)


def test_a_person_cancels_it_while_it_rests(rules: Rules, delays: RedisDelays, clock: ManualClock) -> None:
    one, other = rules.keep(), rules.keep()
    rules.set(owner="")
    clock.advance(8)
    rules.mover.tick()
    assert delays.cancel(TOPIC, "/test", one) is Cancelled.CANCELLED
    assert delays.refusals.by_topic()[TOPIC].count == 1
    assert delays.cancel(TOPIC, "/test", other) is Cancelled.CANCELLED
    assert (delays.refusals.by_topic(), delays.count()) == ({}, 0)


def test_what_its_topic_took_with_it_is_told_as_cancelled_at_the_second_try(
    bus: Bus, rules: Rules, delays: RedisDelays, clock: ManualClock, told: Told
) -> None:
    orphan = rules.keep()
    rules.delete()
    clock.advance(8)
    rules.mover.tick()
    # Whoever asks may not know yet of a topic that was just made.
    assert ([fact.message_id for fact in told("due_refused")], told("cancelled")) == ([orphan], [])
    clock.advance(60)
    rules.mover.tick()
    (fact,) = told("cancelled")
    assert (fact.message_id, fact.source, fact.subscription) == (orphan, "/test", "")
    assert fact.detail == f"The topic {TOPIC!r} that it was meant for was deleted."
    assert delays.standings([(TOPIC, "/test", orphan)]) == [Whereabouts.CANCELLED]
    assert (delays.refusals.by_topic(), delays.next_due_ms(), there(bus)) == ({}, None, [])


def test_a_topic_that_is_heard_of_late_gets_its_message(bus: Bus, rules: Rules, clock: ManualClock) -> None:
    kept = rules.keep()
    rules.delete()
    clock.advance(8)
    rules.mover.tick()
    rules.set()
    clock.advance(60)
    rules.mover.tick()
    assert there(bus) == [kept]


def test_what_is_for_no_topic_that_could_be_holds_up_nobody(
    bus: Bus, rules: Rules, delays: RedisDelays, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = "no/topic at all"
    place = place_of(stranger, "/s", "m")
    delays._store.hset(delays._entries, place, b"x\0nonsense")
    delays._store.zadd(delays._waiting, {place: clock.now_ms()})
    kept = rules.keep({"n": 1})
    clock.advance(8)
    rules.mover.tick()
    assert there(bus) == [kept]
    assert "is for no topic" in caplog.text
    assert delays.refusals.by_topic()[stranger].count == 1


def test_the_messages_of_one_topic_are_found_among_others(
    delays: RedisDelays, clock: ManualClock, rules: Rules
) -> None:
    mine = {rules.keep() for _ in range(3)}
    for other in ("booking.created.v2", "booking_created", "b[o]*king", '"]'):
        delays._store.zadd(delays._waiting, {place_of(other, "/s", TOPIC): 1})
    found = [json.loads(place) for place in delays.places_in(TOPIC)]
    assert {message_id for _, _, message_id in found} == mine
    assert [json.loads(place)[0] for place in delays.places_in("b[o]*king")] == ["b[o]*king"]
    clock.advance(8)
    delays.set_aside(TOPIC, delays.due())
    assert {json.loads(place)[2] for place in delays.places_in(TOPIC)} == mine
    assert list(delays.behind()) == [TOPIC]


@pytest.fixture
def nsq(nsqd_url: str, redis_url: str, prefix: str) -> Iterator[Transport]:
    options = {"nsqd": nsqd_url.rpartition("/")[2]}
    made = open_transport(BusConfig(type="nsq", url=redis_url, prefix=f"{prefix}n", options=options))
    made.admin.create_topic("d.later")
    yield made
    made.close()


def test_on_nsq_it_goes_out_by_itself_as_well(
    bus: Bus, delays: RedisDelays, clock: ManualClock, nsq: Transport, told: Told
) -> None:
    topic = dataclasses.replace(bus.policy, name="d.later", transport="nsq")

    def producer(**changed: Any) -> Producer:
        catalog = StaticCatalog(dataclasses.replace(topic, **changed))
        return Producer(lambda _: nsq, catalog, source="/s", facts=bus.facts, clock=clock, delays=delays)

    sent = producer().publish(topic.name, LARGE, PublishOptions(delay_s=8)).message_id
    clock.advance(8)
    DelayMover(delays, lambda: producer(max_bytes=1_024)).tick()
    assert [fact.message_id for fact in told("due_refused")] == [sent]
    clock.advance(FIRST_PAUSE_S)
    DelayMover(delays, producer).tick()
    assert [fact.message_id for fact in told("published")] == [sent]
    assert (delays.refusals.by_topic(), delays.count()) == ({}, 0)
