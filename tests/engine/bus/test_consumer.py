"""What a consumer does with one delivery: settle, retry, bury, expire, hand on context."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from engine.bus import dead
from engine.bus.context import Context, current
from engine.bus.errors import RetryLater, Unrecoverable
from engine.bus.message import Message, decode
from engine.bus.options import PublishOptions
from engine.bus.policy import RetryPolicy
from engine.bus.transport import DeadEntry, Outgoing
from engine.core.clock import ManualClock
from engine.core.errors import ConfigurationError
from tests.engine.bus.kit import GROUP, PATIENCE_S, TOPIC, Bus, FaultyTransport, Recorder, SetInbox, running, until


def dead_letters(bus: Bus) -> list[DeadEntry]:
    return bus.transport.admin.dead(TOPIC, GROUP)


def test_a_handled_message_is_settled_with_its_evidence(any_bus: Bus) -> None:
    receipt = any_bus.publish({"n": 7}, key="h1", correlation_id="c", causation_id="a", type="booking.made")
    handler = Recorder()
    with running(any_bus.consumer(handler)):
        (fact,) = any_bus.facts.wait_for("settled")
    assert [message.json() for message in handler.calls] == [{"n": 7}]
    assert (fact.topic, fact.subscription, fact.message_id, fact.position) == (
        TOPIC,
        GROUP,
        receipt.message_id,
        receipt.position,
    )
    assert (fact.key, fact.correlation_id, fact.causation_id, fact.type) == ("h1", "c", "a", "booking.made")
    assert (fact.attempt, fact.node, fact.trace_id) == (1, "c1", handler.calls[0].traceparent[3:35])
    assert any_bus.unsettled() == 0


def test_every_message_is_settled_once_by_several_threads_and_consumers(any_bus: Bus) -> None:
    for _ in range(3):
        any_bus.producer.publish_batch(TOPIC, [_item(n) for n in range(400)])
    handler = Recorder()
    with running(any_bus.consumer(handler, name="c1", concurrency=4), any_bus.consumer(handler, name="c2")):
        facts = any_bus.facts.wait_for("settled", 1_200)
    assert len(facts) == len({fact.message_id for fact in facts}) == 1_200
    assert len(handler.calls) == 1_200
    assert any_bus.unsettled() == 0


def _item(n: int) -> Any:
    from engine.bus.producer import BatchItem

    return BatchItem({"n": n})


def test_failures_are_retried_with_backoff_and_then_buried_once_with_their_history(
    any_bus: Bus, clock: ManualClock
) -> None:
    receipt = any_bus.publish({"n": 1})

    def fail(message: Message, context: Context) -> None:
        raise ValueError(f"room {context.attempt} of 'Algarve' is gone")

    handler = Recorder(fail)
    born_ms = clock.now_ms()
    with running(any_bus.consumer(handler, retry=RetryPolicy(3, (10.0, 40.0)))):
        first = any_bus.facts.wait_for("retried", 1)[0]
        # The delay lies between half the tier and the tier.
        assert 5_000 <= first.due_ms - born_ms <= 10_000
        clock.advance(first.due_ms / 1000 - clock.now_ms() / 1000 - 0.010)
        clock.advance(0.020)
        second = any_bus.facts.wait_for("retried", 2)[1]
        assert 20_000 <= second.due_ms - clock.now_ms() <= 40_000
        clock.advance(40)
        (fact,) = any_bus.facts.wait_for("dead")
    assert len(handler.calls) == 3
    assert (fact.attempt, fact.error) == (3, "ValueError: room 3 of 'Algarve' is gone")
    (entry,) = dead_letters(any_bus)
    assert (entry.position, decode(entry.body).id) == (receipt.position, receipt.message_id)
    record = dead.decode(entry.record)
    assert record.cause == "ValueError: room # of … is gone"
    assert record.fingerprint == fact.fingerprint == first.fingerprint
    assert ".fail\n" in record.error
    assert [(each.number, each.consumer) for each in record.history] == [(1, "c1"), (2, "c1"), (3, "c1")]
    assert (record.attempts, record.first_failed_ms, record.died_ms) == (3, born_ms, clock.now_ms())
    assert (record.topic, record.group, record.consumer, record.unrecoverable) == (TOPIC, GROUP, "c1", False)
    assert "Recorder" in record.handler
    assert any_bus.unsettled() == 0


def test_a_retry_comes_back_with_its_attempt_and_untouched_by_the_first(bus: Bus, clock: ManualClock) -> None:
    bus.publish({"n": 1}, headers={"tenant": "acme"})
    seen: list[tuple[int, dict[str, str]]] = []

    def meddle(message: Message, context: Context) -> None:
        seen.append((context.attempt, dict(message.extensions)))
        message.extensions["tenant"] = "changed"
        message.extensions["added"] = "x"
        if context.attempt == 1:
            raise ValueError

    with running(bus.consumer(meddle)):
        bus.facts.wait_for("retried")
        clock.advance(10)
        bus.facts.wait_for("settled")
    assert seen == [(1, {"tenant": "acme"}), (2, {"tenant": "acme"})]


def test_unrecoverable_is_dead_at_once(bus: Bus) -> None:
    bus.publish({"n": 1})

    def fail(message: Message, context: Context) -> None:
        raise Unrecoverable("no such hotel")

    with running(bus.consumer(fail)):
        bus.facts.wait_for("dead")
    record = dead.decode(dead_letters(bus)[0].record)
    assert (record.attempts, record.unrecoverable, record.cause) == (1, True, "Unrecoverable: no such hotel")
    assert bus.facts.of("retried") == []


def test_an_envelope_nobody_can_read_is_dead_at_once_and_holds_nobody_up(bus: Bus) -> None:
    bus.transport.publish(TOPIC, [Outgoing("x", b"not json")])
    bus.publish({"n": 1})
    handler = Recorder()
    with running(bus.consumer(handler, concurrency=1)):
        (fact,) = bus.facts.wait_for("dead")
        bus.facts.wait_for("settled")
    record = dead.decode(dead_letters(bus)[0].record)
    assert record.cause.startswith("MalformedEnvelope")
    assert record.unrecoverable
    assert fact.position
    assert len(handler.calls) == 1


def test_retry_later_names_its_own_pause_and_counts(bus: Bus, clock: ManualClock) -> None:
    bus.publish({"n": 1})
    born_ms = clock.now_ms()

    def later(message: Message, context: Context) -> None:
        raise RetryLater(77.0)

    with running(bus.consumer(later, retry=RetryPolicy(2, (1.0,)))):
        (fact,) = bus.facts.wait_for("retried")
        assert fact.due_ms == born_ms + 77_000
        clock.advance(77)
        bus.facts.wait_for("dead")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), RecursionError()])
def test_nothing_a_handler_raises_ends_its_thread(bus: Bus, clock: ManualClock, error: BaseException) -> None:
    bus.publish({"n": 1})

    def leave(message: Message, context: Context) -> None:
        if context.attempt == 1:
            raise error

    consumer = bus.consumer(leave, concurrency=1)
    with running(consumer):
        (fact,) = bus.facts.wait_for("retried")
        assert fact.error.startswith(type(error).__name__)
        clock.advance(10)
        bus.facts.wait_for("settled")
        assert consumer.status().dead_threads == ()


def test_an_expired_message_is_settled_unhandled(any_bus: Bus, clock: ManualClock) -> None:
    any_bus.publish({"n": 1}, ttl_s=60)
    any_bus.publish({"n": 2}, ttl_s=90)
    clock.advance(60)
    handler = Recorder()
    with running(any_bus.consumer(handler)):
        any_bus.facts.wait_for("settled")
        (fact,) = any_bus.facts.wait_for("expired")
    assert [message.json()["n"] for message in handler.calls] == [2]
    assert fact.detail.startswith("expired at 20")
    assert any_bus.unsettled() == 0
    assert dead_letters(any_bus) == []


def test_what_a_handler_publishes_inherits_from_its_message(bus: Bus) -> None:
    first = bus.publish({"n": 1}, correlation_id="trip-9")
    spans: list[str] = []

    def relay(message: Message, context: Context) -> None:
        assert current() is context
        if message.type == TOPIC:
            spans.append(context.trace.span_id)
            bus.producer.publish(TOPIC, {"n": 2}, PublishOptions(type="booking.priced"))

    with running(bus.consumer(relay)):
        bus.facts.wait_for("settled", 2)
    cause, effect = (decode(entry.body) for entry in bus.transport.admin.browse(TOPIC).entries)
    assert effect.correlationid == "trip-9"
    assert effect.causationid == first.message_id
    assert effect.traceparent[3:35] == cause.traceparent[3:35]
    # Publish, attempt and second publish are three spans of one trace.
    assert len({cause.traceparent[36:52], spans[0], effect.traceparent[36:52]}) == 3
    assert current() is None


def test_each_attempt_has_a_span_of_its_own(bus: Bus, clock: ManualClock) -> None:
    bus.publish({"n": 1})
    spans: list[str] = []

    def fail_once(message: Message, context: Context) -> None:
        spans.append(str(context.trace))
        assert str(context.trace) == spans[-1]
        if context.attempt == 1:
            raise ValueError

    with running(bus.consumer(fail_once)):
        bus.facts.wait_for("retried")
        clock.advance(10)
        bus.facts.wait_for("settled")
    assert len(set(spans)) == 2
    assert len({span[3:35] for span in spans}) == 1


def test_the_inbox_stops_a_second_delivery_of_one_message(bus: Bus) -> None:
    message = bus.producer.prepare(TOPIC, {"n": 1})
    bus.producer.send(TOPIC, [message, message])
    handler = Recorder()
    with running(bus.consumer(handler, inbox=SetInbox(), transactional=True)):
        bus.facts.wait_for("settled")
        facts = bus.facts.wait_for("deduplicated")
    assert len(handler.calls) == 1
    assert facts[-1].subscription == GROUP
    assert bus.unsettled() == 0


def test_a_failed_effect_leaves_no_inbox_entry(bus: Bus, clock: ManualClock) -> None:
    bus.publish({"n": 1})
    inbox = SetInbox()

    def fail_once(message: Message, context: Context) -> None:
        if context.attempt == 1:
            raise ValueError

    with running(bus.consumer(fail_once, inbox=inbox, transactional=True)):
        bus.facts.wait_for("retried")
        assert inbox.seen == set()
        clock.advance(10)
        (fact,) = bus.facts.wait_for("settled")
    assert fact.attempt == 2
    assert {entry[0] for entry in inbox.seen} == {f"{TOPIC}/{GROUP}"}


@pytest.mark.parametrize(("most", "tried"), [(1, 2), (2, 2), (3, 3)])
def test_a_message_that_kills_its_consumers_is_tried_no_more_often_than_its_policy_says(
    any_bus: Bus, clock: ManualClock, most: int, tried: int
) -> None:
    bus = any_bus
    bus.publish({"n": 1})
    receiver = bus.transport.inner.receiver(TOPIC, GROUP, consumer="doomed", lease_ms=1_000)
    # Of a single attempt nobody knows whether it was made.
    for attempt in range(1, tried + 1):
        (delivery,) = receiver.receive(1, 1.0)
        assert delivery.attempt == attempt
        clock.advance(2)
    handler = Recorder()
    with running(bus.consumer(handler, retry=RetryPolicy(most, (10.0,)))):
        bus.facts.wait_for("dead")
    assert handler.calls == []
    record = dead.decode(dead_letters(bus)[0].record)
    assert record.cause == "Unrecoverable: the consumer that had it for attempt # vanished, and it was the last"
    assert record.unrecoverable


def test_a_copy_made_for_another_subscription_is_settled_unhandled_and_unsaid(bus: Bus) -> None:
    message = bus.producer.prepare(TOPIC, {"n": 1})
    copies = [msgspec.structs.replace(message, id=target, hbustarget=target) for target in ("billing", GROUP)]
    bus.producer.send(TOPIC, copies)
    handler = Recorder()
    with running(bus.consumer(handler)):
        (fact,) = bus.facts.wait_for("settled")
        until(lambda: bus.unsettled() == 0)
    assert [message.id for message in handler.calls] == [fact.message_id] == [GROUP]


@pytest.mark.parametrize("expiry", ["never", "2026-01-01T00:00:00"])
def test_an_expiry_nobody_can_read_is_dead_at_once(bus: Bus, expiry: str) -> None:
    message = msgspec.structs.replace(bus.producer.prepare(TOPIC, {"n": 1}), expirytime=expiry)
    bus.producer.send(TOPIC, [message])
    with running(bus.consumer(Recorder())):
        (fact,) = bus.facts.wait_for("dead")
    assert fact.message_id == message.id
    assert "expirytime" in fact.error


def test_what_cannot_work_is_refused_when_configured(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="no inbox"):
        bus.consumer(Recorder(), transactional=True)
    orderless = replace(bus.transport.capabilities, partitions=False)
    monkeypatch.setattr(FaultyTransport, "capabilities", orderless)
    with pytest.raises(ConfigurationError, match="does not keep order"):
        bus.consumer(Recorder(), ordering="key")


def test_the_status_tells_what_is_going_on(bus: Bus, clock: ManualClock) -> None:
    go_on = threading.Event()

    def hold(message: Message, context: Context) -> None:
        assert go_on.wait(PATIENCE_S)

    handler = Recorder(hold)
    consumer = bus.consumer(handler, concurrency=2)
    assert consumer.status().state == "starting"
    for n in range(2):
        bus.publish({"n": n})
    with running(consumer):
        handler.wait_for(2)
        clock.advance(5)
        status = consumer.status()
        assert (status.name, status.topic, status.group, status.state) == ("c1", TOPIC, GROUP, "running")
        assert (status.in_flight, status.queued, status.handled) == (2, 0, 0)
        assert status.oldest_running_s == 5.0
        go_on.set()
        bus.facts.wait_for("settled", 2)
        clock.advance(1)
        assert consumer.status().handled == 2
        # Two in the one second since the last look.
        assert consumer.status().rate == 2.0
    assert consumer.status().state == "stopped"


def test_no_fact_of_a_life_carries_the_payload(bus: Bus, clock: ManualClock) -> None:
    """Published, retried and dead: evidence is shown to who may not see what is masked."""
    bus.publish({"guest": {"email": "ana@lima.example"}}, key="g1")

    def fails(message: Message, context: Context) -> None:
        raise RuntimeError("the partner is away")

    with running(bus.consumer(fails, retry=RetryPolicy(2, (10.0,)))):
        bus.facts.wait_for("retried")
        clock.advance(10)
        bus.facts.wait_for("dead")
    assert {fact.kind for fact in bus.facts.seen} >= {"published", "retried", "dead"}
    assert not any("lima" in str(fact) for fact in bus.facts.seen)
