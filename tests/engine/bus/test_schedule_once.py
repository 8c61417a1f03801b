"""An idempotency key stands for one message of its topic, published at once or for later, whoever dies in between."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import redis

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.conformance.running import FactRecorder
from engine.bus.delay_mover import DelayMover
from engine.bus.delays import Cancelled, RedisDelays
from engine.bus.errors import IdempotencyConflict, PublishFailed, PublishUnknown
from engine.bus.message import Message, decode, digest
from engine.bus.optional import Claiming
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Producer, Receipt, ReceiptStatus
from engine.bus.registry import open_transport
from engine.bus.transport import Outcome, Outgoing, Settlement, Status, Transport
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from tests.engine.bus.kit import GROUP, TOPIC, FaultyTransport, make_bus

ROOT = Path(__file__).parents[3]
DAY_S = 86_400
NOW = PublishOptions(idempotency_key="order-7")
LATER = PublishOptions(idempotency_key="order-7", delay_s=60)


class World:
    """A producer with a delay path on some transport, and its mover."""

    def __init__(self, transport: Transport, delays: RedisDelays, clock: ManualClock, policy: StaticCatalog) -> None:
        self.transport = transport
        self.delays = delays
        self.clock = clock
        self.facts = FactRecorder()
        self.policy = policy
        self.producer = self.another(delays)

    def another(self, delays: RedisDelays | None) -> Producer:
        return Producer(
            lambda _: self.transport, self.policy, source="/test", facts=self.facts, clock=self.clock, delays=delays
        )

    def publish(self, options: PublishOptions, n: int = 1) -> Receipt:
        return self.producer.publish(TOPIC, {"n": n}, options)

    def claim(self, message: Message, due_s: float) -> None:
        """All that a publisher does who dies before it can schedule."""
        assert isinstance(self.transport, Claiming)
        due_ms = self.clock.now_ms() + round(due_s * 1000)
        wanted = Outgoing(
            message.id,
            b"",
            idempotency_key="order-7",
            idempotency_digest=digest(message),
            idempotency_window_ms=DAY_S * 1000,
            due_ms=due_ms,
        )
        assert self.transport.claim(TOPIC, [wanted]) == [Outcome(Status.OK, message.id)]

    def prepared(self, options: PublishOptions = LATER, n: int = 1) -> Message:
        return self.producer.prepare(TOPIC, {"n": n}, options)

    def after(self, seconds: float) -> list[str]:
        """The ids that lie in the topic, settled, once so much time has gone by and the mover has been at work."""
        self.clock.advance(seconds)
        DelayMover(self.delays, lambda: self.producer).tick()
        receiver = self.transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=60_000)
        found: list[str] = []
        while taken := receiver.receive(100, 0.2):
            receiver.settle([Settlement(each.receipt) for each in taken])
            found += [decode(each.body).id for each in taken]
        receiver.close()
        return found


@pytest.fixture(params=["memory", "redis_stream", "nsq"])
def world(request: pytest.FixtureRequest, clock: ManualClock, redis_url: str, prefix: str) -> Iterator[World]:
    options = {"nsqd": request.getfixturevalue("nsqd_url")} if request.param == "nsq" else {}
    bus = make_bus(BusConfig(type=request.param, url=redis_url, prefix=prefix, options=options), clock)
    client = redis.Redis.from_url(redis_url)
    yield World(bus.transport.inner, RedisDelays(client, prefix, clock=clock), clock, StaticCatalog(bus.policy))
    bus.transport.close()
    client.close()


def test_what_was_published_at_once_is_not_kept_for_later(world: World) -> None:
    first = world.publish(NOW)
    again = world.publish(LATER)
    assert (again.status, again.message_id) == (ReceiptStatus.DUPLICATE, first.message_id)
    assert world.delays.count() == 0
    assert world.after(60) == [first.message_id]
    assert world.facts.kinds() == ["published", "deduplicated"]


def test_what_is_kept_for_later_is_not_published_at_once(world: World) -> None:
    first = world.publish(LATER)
    again = world.publish(NOW)
    assert (again.status, again.message_id, again.due_ms) == (ReceiptStatus.DUPLICATE, first.message_id, first.due_ms)
    assert world.after(59.9) == []
    assert world.after(0.1) == [first.message_id]
    assert world.facts.kinds() == ["delayed", "deduplicated", "published"]


@pytest.mark.parametrize("options", [NOW, LATER], ids=["now", "later"])
def test_a_promoted_message_is_still_what_its_key_stands_for(world: World, options: PublishOptions) -> None:
    first = world.publish(LATER)
    assert world.after(60) == [first.message_id]
    again = world.publish(options)
    assert (again.status, again.message_id) == (ReceiptStatus.DUPLICATE, first.message_id)
    assert world.delays.count() == 0
    assert world.after(120) == []


@pytest.mark.parametrize(("one", "other"), [(NOW, LATER), (LATER, NOW), (LATER, LATER)])
def test_another_body_under_the_key_is_a_conflict(world: World, one: PublishOptions, other: PublishOptions) -> None:
    first = world.publish(one)
    with pytest.raises(IdempotencyConflict):
        world.publish(other, n=2)
    assert world.after(60) == [first.message_id]


@pytest.mark.parametrize("key", ["", "outbox:1"], ids=["its id", "another"])
def test_a_message_that_is_sent_again_is_not_its_own_duplicate(world: World, key: str) -> None:
    """So an outbox sends: again under one key when its relay died, by then perhaps past the due time."""
    message = world.prepared()
    key = key or message.id
    for _ in range(2):
        (answer,) = world.producer.send(TOPIC, [message], idempotency_keys=[key])
        assert isinstance(answer, Receipt)
        assert answer.status is ReceiptStatus.DELAYED
    world.clock.advance(60)
    (answer,) = world.producer.send(TOPIC, [message], idempotency_keys=[key])
    assert isinstance(answer, Receipt)
    assert (answer.status, answer.message_id) == (ReceiptStatus.STORED, message.id)
    assert world.after(0) == [message.id]
    assert world.delays.count() == 0


@pytest.mark.parametrize("options", [NOW, LATER], ids=["now", "later"])
def test_a_claim_whose_publisher_died_is_carried_out_by_the_next(world: World, options: PublishOptions) -> None:
    dead = world.prepared()
    world.claim(dead, due_s=30)
    answer = world.publish(options)
    assert (answer.status, answer.message_id) == (ReceiptStatus.DUPLICATE, dead.id)
    assert (world.delays.count(), world.delays.next_due_ms()) == (1, answer.due_ms)
    assert world.facts.kinds() == ["delayed", "deduplicated"]
    assert world.after(29.9) == []
    assert world.after(0.1) == [dead.id]
    assert world.publish(options).message_id == dead.id
    assert world.after(60) == []


def test_a_publisher_that_comes_back_to_its_claim_adds_nothing(world: World) -> None:
    """It hung between its two steps, and another carried out the claim meanwhile, to the end."""
    slow = world.prepared()
    world.claim(slow, due_s=30)
    world.publish(NOW)
    assert world.after(30) == [slow.id]
    (answer,) = world.producer.send(TOPIC, [slow], idempotency_keys=["order-7"])
    assert isinstance(answer, Receipt)
    assert (answer.status, answer.message_id) == (ReceiptStatus.DUPLICATE, slow.id)
    assert world.after(60) == []


@pytest.mark.parametrize("options", [NOW, LATER], ids=["now", "later"])
def test_what_was_cancelled_before_an_upgrade_does_not_come_back_under_its_key(
    world: World, prefix: str, options: PublishOptions
) -> None:
    """A release before remembered it by its id alone."""
    cancelled = world.prepared()
    world.claim(cancelled, due_s=30)
    key = f"{prefix}:{{delays}}:key:{TOPIC}:{cancelled.id}"
    world.delays._store.set(key, f"{digest(cancelled)} {cancelled.id}")
    again = world.publish(options)
    assert (again.status, again.message_id) == (ReceiptStatus.DUPLICATE, cancelled.id)
    assert world.after(60) == []


def test_a_key_is_not_spent_on_a_message_that_was_refused(world: World) -> None:
    """For then the advice of the refusal, to send what was sent first, would be refused as well."""
    first = world.publish(PublishOptions(delay_s=60, message_id="a"))
    other = PublishOptions(delay_s=60, message_id="a", idempotency_key="order-7")
    with pytest.raises(IdempotencyConflict, match="waits for its due time"):
        world.publish(other, n=2)
    again = world.publish(other)
    assert (again.status, again.message_id) == (ReceiptStatus.DELAYED, first.message_id)
    assert world.after(60) == [first.message_id]


def test_a_key_is_not_spent_on_another_message_of_a_name_in_one_batch(world: World) -> None:
    options = [PublishOptions(delay_s=60, message_id="a", idempotency_key=key) for key in ("order-7", "order-8")]
    items = [BatchItem({"n": number}, each) for number, each in enumerate(options)]
    kept, refused = world.producer.publish_batch(TOPIC, items)
    assert isinstance(kept, Receipt)
    assert isinstance(refused, IdempotencyConflict)
    assert refused.field == "id"
    fresh = world.publish(PublishOptions(delay_s=60, idempotency_key="order-8"), n=2)
    assert sorted(world.after(60)) == sorted(["a", fresh.message_id])


def test_a_key_is_not_spent_while_the_delay_path_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> list[bool]:
        raise Unavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr(world.delays, "taken", away)
        with pytest.raises(PublishFailed, match="away"):
            world.publish(LATER, n=2)
    assert world.publish(LATER).status is ReceiptStatus.DELAYED


def test_what_was_cancelled_does_not_come_back_under_its_key(world: World) -> None:
    first = world.publish(LATER)
    assert world.delays.cancel(TOPIC, "/test", first.message_id) is Cancelled.CANCELLED
    for options in (NOW, LATER):
        again = world.publish(options)
        assert (again.status, again.message_id) == (ReceiptStatus.DUPLICATE, first.message_id)
    assert world.after(60) == []


def test_one_key_twice_in_a_batch(world: World) -> None:
    items = [BatchItem({"n": 1}, options) for options in (LATER, LATER, NOW)]
    answers = world.producer.publish_batch(TOPIC, items)
    assert all(isinstance(answer, Receipt) for answer in answers)
    assert [answer.status for answer in answers if isinstance(answer, Receipt)].count(ReceiptStatus.DUPLICATE) == 2
    assert len(world.after(60)) == 1


def test_a_producer_without_a_delay_path_says_that_it_cannot_know(world: World) -> None:
    first = world.publish(LATER)
    with pytest.raises(PublishUnknown, match=first.message_id):
        world.another(None).publish(TOPIC, {"n": 1}, NOW)


@pytest.mark.parametrize("world", ["memory", "redis_stream"], indirect=True)
def test_beyond_the_window_the_key_is_free(world: World) -> None:
    far = PublishOptions(idempotency_key="order-7", delay_s=2 * DAY_S)
    window_s = world.policy.topic(TOPIC).idempotency_window_s
    first = world.publish(far)
    assert world.publish(NOW).status is ReceiptStatus.DUPLICATE
    assert world.after(window_s) == []
    second = world.publish(NOW)
    assert (second.status, world.after(0)) == (ReceiptStatus.STORED, [second.message_id])
    assert world.after(2 * DAY_S) == [first.message_id]


@pytest.mark.parametrize("world", ["memory", "redis_stream"], indirect=True)
@pytest.mark.parametrize("n", [1, 2], ids=["same", "another"])
@pytest.mark.parametrize("delay_s", [None, 4 * DAY_S], ids=["now", "later"])
def test_a_key_that_stands_for_another_by_then_holds_back_no_message(
    world: World, n: int, delay_s: float | None
) -> None:
    window_s = world.policy.topic(TOPIC).idempotency_window_s
    first = world.publish(PublishOptions(idempotency_key="order-7", delay_s=window_s + 10))
    world.clock.advance(window_s)
    second = world.publish(PublishOptions(idempotency_key="order-7", delay_s=delay_s), n=n)
    found = world.after(10)
    assert sorted(found) == sorted([first.message_id] if delay_s else [first.message_id, second.message_id])
    assert world.delays.count() == (delay_s is not None)
    assert world.after(4 * DAY_S) == ([second.message_id] if delay_s else [])


@pytest.mark.parametrize("world", ["memory", "redis_stream"], indirect=True)
@pytest.mark.parametrize("n", [1, 2], ids=["same", "another"])
@pytest.mark.parametrize("delay_s", [None, 4 * DAY_S], ids=["now", "later"])
def test_an_ordered_topic_stays_in_order_where_a_key_stands_for_another_by_then(
    world: World, n: int, delay_s: float | None
) -> None:
    world.policy = StaticCatalog(dataclasses.replace(world.policy.topic(TOPIC), ordering="key"))
    world.producer = world.another(world.delays)
    window_s = world.policy.topic(TOPIC).idempotency_window_s
    first = world.publish(PublishOptions(idempotency_key="order-7", delay_s=window_s + 10, key="h1"))
    second = world.publish(PublishOptions(delay_s=window_s + 11, key="h1"))
    third = world.publish(PublishOptions(idempotency_key="order-8", delay_s=window_s + 12, key="h1"))
    world.clock.advance(window_s)
    world.publish(PublishOptions(idempotency_key="order-7", delay_s=delay_s, key="h1"), n=n)
    wanted = [first.message_id, second.message_id, third.message_id]
    assert [each for each in world.after(20) if each in wanted] == wanted
    assert world.delays.count() == (delay_s is not None)


def test_a_transport_that_claims_nothing_compares_among_the_delayed_alone(
    clock: ManualClock, redis_url: str, prefix: str
) -> None:
    bus = make_bus(BusConfig(type="memory"), clock)
    client = redis.Redis.from_url(redis_url)
    delays = RedisDelays(client, prefix, clock=clock)
    world = World(bus.transport, delays, clock, StaticCatalog(bus.policy))
    assert isinstance(bus.transport, FaultyTransport)
    assert not isinstance(bus.transport, Claiming)
    first = world.publish(LATER)
    assert world.publish(LATER).message_id == first.message_id
    assert world.publish(NOW).status is ReceiptStatus.STORED
    client.close()


@pytest.mark.parametrize("ways", [("now", "later"), ("later", "later"), ("either", "either", "either")], ids=" ".join)
def test_processes_that_race_for_a_key_make_one_message_of_it(
    redis_url: str, prefix: str, ways: tuple[str, ...]
) -> None:
    keys = 120
    transport = open_transport(BusConfig(url=redis_url, prefix=prefix))
    transport.admin.create_topic(TOPIC)
    transport.admin.create_group(TOPIC, GROUP)
    store = redis.Redis.from_url(redis_url)
    command = [sys.executable, "-m", "tests.engine.bus.racing", redis_url, prefix]
    rivals = [
        subprocess.Popen([*command, way, str(len(ways)), str(keys)], cwd=ROOT, stdout=subprocess.PIPE) for way in ways
    ]
    for _ in rivals:
        assert store.blpop([f"{prefix}:ready"], 30)
    store.rpush(f"{prefix}:go", *ways)
    said = [line for rival in rivals for line in rival.communicate(timeout=60)[0].splitlines()]
    assert [rival.returncode for rival in rivals] == [0] * len(ways)

    answers = [msgspec.json.decode(line, type=tuple[int, str, str]) for line in said]
    assert Counter(number for number, _, _ in answers) == dict.fromkeys(range(keys), len(ways))
    assert len({(number, message_id) for number, _, message_id in answers}) == keys
    made = [number for number, status, _ in answers if status != ReceiptStatus.DUPLICATE]
    assert sorted(made) == list(range(keys))

    clock = ManualClock(time.time_ns() // 1_000_000)
    catalog = StaticCatalog(TopicPolicy(TOPIC, owner="inventory"))
    stored = World(transport, RedisDelays(store, prefix, clock=clock), clock, catalog).after(10)
    assert sorted(stored) == sorted({message_id for _, _, message_id in answers})
    transport.close()
    store.close()


@pytest.mark.parametrize("world", ["memory", "redis_stream"], indirect=True)
@pytest.mark.parametrize("delay_s", [None, 60.0], ids=["now", "later"])
def test_a_key_is_remembered_for_as_long_as_was_asked(world: World, delay_s: float | None) -> None:
    window_s = world.policy.topic(TOPIC).idempotency_window_s
    asked = PublishOptions(idempotency_key="order-7", idempotency_at_least_s=3 * window_s, delay_s=delay_s)
    first = world.publish(asked)
    world.after(120)
    world.after(2 * window_s)
    again = world.publish(NOW)
    assert (again.status, again.message_id) == (ReceiptStatus.DUPLICATE, first.message_id)
    world.after(window_s)
    assert world.publish(NOW).status is ReceiptStatus.STORED
