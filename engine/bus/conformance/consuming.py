"""A producer and consumers on the transport: what a handler may rely on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from engine.bus import dead
from engine.bus.conformance.base import PATIENCE_S, TransportTests, Workbench, bodies, numbered, settle
from engine.bus.conformance.promises import keeps, needs
from engine.bus.conformance.running import House, Recorder, SetInbox, running, until
from engine.bus.consumer import Left
from engine.bus.context import Context
from engine.bus.message import Message, decode
from engine.bus.transport import Admin, Capabilities, Receiver, Settlement, Transport, Verdict
from engine.core.errors import Unavailable
from engine.core.ids import new_id

PassTime = Callable[[float], None]


class Holding:
    """A handler that keeps everybody who enters until it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.contexts: list[Context] = []
        self.recorder = Recorder(self._hold)

    def _hold(self, message: Message, context: Context) -> None:
        self.contexts.append(context)
        assert self.go_on.wait(PATIENCE_S)


class ConsumingConformance(TransportTests):
    @pytest.fixture
    def house(self, bench: Workbench, transport: Transport) -> House:
        return House(bench, transport)

    @keeps("K3")
    def test_many_topics_at_once_are_each_complete(self, bench: Workbench) -> None:
        topics = [bench.make_topic() for _ in range(8)]
        for topic in topics:
            bench.admin.create_group(topic, bench.group)

        def fill_and_drain(topic: str) -> list[bytes]:
            bench.publish(*(topic.encode() + body for body in numbered(60)), topic=topic)
            return bodies(bench.drain(bench.receiver(topic=topic)))

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(fill_and_drain, topics))

        for topic, taken in zip(topics, results, strict=True):
            bench.expect(taken, [topic.encode() + body for body in numbered(60)])

    @keeps("K7")
    def test_consumers_opened_and_closed_at_once_leave_a_topic_that_works(self, bench: Workbench) -> None:
        def open_and_close(number: int) -> None:
            receiver = bench.receiver(f"c{number}")
            receiver.receive(1, 0.01)
            receiver.close()

        with ThreadPoolExecutor(10) as pool:
            list(pool.map(open_and_close, range(10)))

        bench.publish(*numbered(50))
        bench.expect(bench.take(bench.receiver(), 50), numbered(50))

    @keeps("K10")
    def test_what_a_closed_producer_had_confirmed_can_be_read(self, bench: Workbench, house: House) -> None:
        def publish(number: int) -> None:
            producer = house.make_producer()
            for each in range(10):
                producer.publish(bench.topic, {"n": number * 10 + each})
            producer.close()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(publish, range(20)))
        house.producer.close()

        taken = bench.drain(bench.receiver())
        assert sorted(decode(each.body).json()["n"] for each in taken) == list(range(200))

    @keeps("K12", "K17")
    def test_a_handler_is_told_when_its_delivery_is_another_ones(
        self, bench: Workbench, house: House, pass_time: PassTime
    ) -> None:
        # Given a handler that holds its message, in a consumer whose store says its leases are gone
        class Deaf(_Wrapped):
            def extend(self, receipts: Sequence[str]) -> list[bool]:
                return [False] * len(receipts)

        holding = Holding()
        house.publish(1)
        with running(house.consumer(holding.recorder, transport=_Wrapping(house.transport, Deaf))):
            holding.recorder.wait_for(1)

            # Then it can see so, long before it ends
            until(lambda: holding.contexts[0].lease_lost, between=lambda: pass_time(bench.lease_ms / 10_000))
            holding.go_on.set()

    @keeps("K18")
    def test_a_handler_slower_than_its_lease_is_run_once(
        self, bench: Workbench, house: House, pass_time: PassTime
    ) -> None:
        beats: list[int] = []

        class Beating(_Wrapped):
            def extend(self, receipts: Sequence[str]) -> list[bool]:
                answers = self.inner.extend(receipts)
                beats.append(len(answers))
                return answers

        holding, idle = Holding(), Recorder()
        house.publish(1)
        with running(house.consumer(holding.recorder, name="slow", transport=_Wrapping(house.transport, Beating))):
            holding.recorder.wait_for(1)
            with running(house.consumer(idle, name="idle")):
                # Four leases' time, in steps after each of which the heart has beaten
                for beat in range(1, 13):
                    pass_time(bench.lease_ms / 3000)
                    until(lambda beat=beat: len(beats) >= beat)  # type: ignore[misc]
                holding.go_on.set()
                (fact,) = house.facts.wait_for("settled")
        assert (fact.attempt, len(holding.recorder.calls), idle.calls) == (1, 1, [])
        bench.expect_all_settled()

    @keeps("K19", "K20")
    def test_what_fails_to_the_last_is_one_dead_letter_with_its_story(
        self, bench: Workbench, house: House, pass_time: PassTime
    ) -> None:
        def fail(message: Message, context: Context) -> None:
            raise ValueError(f"room {context.attempt} is gone")

        receipt = house.publish(1)
        handler = Recorder(fail)
        with running(house.consumer(handler)):
            until(lambda: bool(house.facts.of("dead")), between=lambda: pass_time(0.05))
        assert len(handler.calls) == 3
        (letter,) = bench.admin.dead(bench.topic, bench.group)
        record = dead.decode(letter.record)
        assert decode(letter.body).id == receipt.message_id
        assert (record.attempts, record.cause) == (3, "ValueError: room # is gone")
        assert (record.topic, record.group) == (bench.topic, bench.group)
        assert [each.number for each in record.history] == [1, 2, 3]
        assert record.first_failed_ms <= record.died_ms
        bench.expect_all_settled()

    @keeps("K21")
    def test_a_dead_letter_that_could_not_be_kept_leaves_its_message(
        self, bench: Workbench, house: House, pass_time: PassTime
    ) -> None:
        refused: list[Settlement] = []

        class Refusing(_Wrapped):
            def settle(self, batch: Sequence[Settlement]) -> list[bool]:
                if len(refused) < 3 and any(each.verdict is Verdict.DEAD for each in batch):
                    refused.extend(batch)
                    assert bench.admin.lag(bench.topic, bench.group).unsettled == 1
                    raise Unavailable("the dead letters cannot be kept")
                return self.inner.settle(batch)

        def fail(message: Message, context: Context) -> None:
            raise ValueError

        house.publish(1)
        with running(house.consumer(Recorder(fail), transport=_Wrapping(house.transport, Refusing))):
            until(lambda: bool(house.facts.of("dead")), between=lambda: pass_time(0.05))
        assert len(refused) >= 3
        assert len(bench.admin.dead(bench.topic, bench.group)) == 1

    @keeps("K22")
    @needs("idempotent_publish")
    def test_a_letter_redriven_from_many_hands_is_one_new_message(self, bench: Workbench, house: House) -> None:
        # Given a dead letter, and eight who redrive it as the console does: its copy under the letter's own key
        original = house.producer.prepare(bench.topic, {"n": 1})
        original = msgspec.structs.replace(original, correlationid="trip-9")
        copy_id = new_id(bench.clock.now_ms())
        copy = msgspec.structs.replace(original, id=copy_id, causationid=original.id, hbusreplay="redrive")
        with ThreadPoolExecutor(8) as pool:
            answers = list(
                pool.map(
                    lambda _: house.producer.send(bench.topic, [copy], idempotency_keys=[f"redrive:{original.id}"]),
                    range(8),
                )
            )

        # Then there is one message, which names what it is a copy of
        assert Counter(answer.status for (answer,) in answers) == {"stored": 1, "duplicate": 7}  # type: ignore[union-attr]
        (found,) = (decode(each.body) for each in bench.drain(bench.receiver()))
        assert (found.id, found.causationid, found.correlationid) == (copy_id, original.id, "trip-9")
        assert found.hbusreplay == "redrive"

    @keeps("K24")
    def test_what_expired_is_settled_unhandled(self, bench: Workbench, house: House, pass_time: PassTime) -> None:
        house.publish(1, ttl_s=1)
        house.publish(2, ttl_s=900)
        pass_time(1.1)
        handler = Recorder()
        with running(house.consumer(handler)):
            house.facts.wait_for("settled")
            house.facts.wait_for("expired")
        assert house.numbers(handler) == [2]
        assert bench.admin.dead(bench.topic, bench.group) == []
        bench.expect_all_settled()

    @keeps("K27")
    def test_a_message_delivered_twice_is_handled_once_behind_an_inbox(self, bench: Workbench, house: House) -> None:
        message = house.producer.prepare(bench.topic, {"n": 1})
        house.producer.send(bench.topic, [message, message])
        handler = Recorder()
        with running(house.consumer(handler, inbox=SetInbox(), transactional=True)):
            house.facts.wait_for("settled")
            house.facts.wait_for("deduplicated")
        assert len(handler.calls) == 1
        bench.expect_all_settled()

    @keeps("K32")
    def test_a_drain_finishes_what_runs_and_leaves_the_rest_to_others(self, bench: Workbench, house: House) -> None:
        holding = Holding()
        house.publish_many(range(10))
        consumer = house.consumer(holding.recorder, concurrency=1)
        left: list[Left] = []
        with running(consumer):
            holding.recorder.wait_for(1)
            stopping = threading.Thread(target=lambda: left.append(consumer.stop(30.0)))
            stopping.start()
            until(lambda: consumer.status().state == "draining")
            holding.go_on.set()
            stopping.join(PATIENCE_S)
        assert (left[0].running, left[0].unsettled, len(holding.recorder.calls)) == (0, 0, 1)
        # Nothing waits for a lease: another has the rest at once, as first attempts
        rest = Recorder()
        with running(house.consumer(rest, name="two")):
            facts = house.facts.wait_for("settled", 10)
        assert {fact.attempt for fact in facts} == {1}
        assert sorted(house.numbers(rest) + house.numbers(holding.recorder)) == list(range(10))

    @keeps("K32")
    def test_a_drain_ends_at_its_deadline(self, bench: Workbench, house: House, pass_time: PassTime) -> None:
        holding = Holding()
        house.publish(1)
        consumer = house.consumer(holding.recorder, concurrency=1)
        left: list[Left] = []
        with running(consumer):
            holding.recorder.wait_for(1)
            stopping = threading.Thread(target=lambda: left.append(consumer.stop(1.0)))
            stopping.start()
            until(lambda: bool(left), between=lambda: pass_time(0.05))
            assert left[0].running == 1
            assert holding.contexts[0].lease_lost
            holding.go_on.set()
            stopping.join(PATIENCE_S)

    @keeps("K33")
    def test_headers_of_any_script_arrive(self, house: House) -> None:
        headers = {"tenant": "Ærøskøbing – 予約 🛎", "quoted": 'a "b" \\ c', "empty": ""}
        house.publish(1, headers=headers, key="ключ/鍵")
        handler = Recorder()
        with running(house.consumer(handler)):
            house.facts.wait_for("settled")
        (message,) = handler.calls
        assert (dict(message.extensions), message.partitionkey) == (headers, "ключ/鍵")

    @keeps("K35")
    def test_a_group_deleted_under_a_live_consumer_is_loud_and_healed(self, bench: Workbench, house: House) -> None:
        handler = Recorder()
        with running(house.consumer(handler)):
            house.publish(1)
            house.facts.wait_for("settled")
            bench.admin.delete_group(bench.topic, bench.group)
            (fact, *_) = house.facts.wait_for("group_lost")
            assert fact.subscription == bench.group
            until(lambda: bench.group in bench.admin.groups(bench.topic))
            house.publish(2)
            until(lambda: 2 in house.numbers(handler))

    @keeps("K36")
    def test_concurrency_is_raised_and_lowered_while_messages_are_handled(self, house: House) -> None:
        holding = Holding()
        house.publish_many(range(12))
        consumer = house.consumer(holding.recorder, concurrency=1)
        with running(consumer):
            holding.recorder.wait_for(1)
            consumer.set_concurrency(5)
            holding.recorder.wait_for(5)
            consumer.set_concurrency(2)
            # Nothing that runs is cut off
            assert consumer.status().in_flight == 5
            holding.go_on.set()
            house.facts.wait_for("settled", 12)
            holding.go_on.clear()
            house.publish_many(range(12, 18))
            holding.recorder.wait_for(14)
            until(lambda: consumer.status().in_flight == 2)
            holding.go_on.set()
            house.facts.wait_for("settled", 18)
        assert sorted(house.numbers(holding.recorder)) == list(range(18))

    @keeps("K37")
    def test_what_a_handler_does_to_headers_is_gone_at_the_next_attempt(
        self, house: House, pass_time: PassTime
    ) -> None:
        seen: list[dict[str, str]] = []

        def meddle(message: Message, context: Context) -> None:
            seen.append(dict(message.extensions))
            message.extensions["tenant"] = "changed"
            message.extensions["added"] = "x"
            if context.attempt == 1:
                raise ValueError

        house.publish(1, headers={"tenant": "acme"})
        with running(house.consumer(meddle)):
            until(lambda: bool(house.facts.of("settled")), between=lambda: pass_time(0.05))
        assert seen == [{"tenant": "acme"}] * 2

    @keeps("K8")
    def test_who_fails_for_ever_keeps_nothing_from_one_that_works(self, bench: Workbench) -> None:
        bench.publish(*numbered(50))
        failing = bench.receiver("failing")
        for _ in range(20):
            settle(failing, failing.receive(10, 0.01), Verdict.RETRY)

        assert {*bodies(bench.take(bench.receiver("working"), 50))} == {*numbered(50)}


class _Wrapped:
    """A receiver one of whose verbs is another."""

    def __init__(self, inner: Receiver) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class _Wrapping:
    """A transport whose receivers are wrapped."""

    name = "wrapping"

    def __init__(self, inner: Transport, wrap: Callable[[Receiver], Any]) -> None:
        self._inner = inner
        self._wrap = wrap

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    @property
    def admin(self) -> Admin:
        return self._inner.admin

    def publish(self, topic: str, batch: Any) -> Any:
        return self._inner.publish(topic, batch)

    def receiver(self, topic: str, group: str, **more: Any) -> Any:
        return self._wrap(self._inner.receiver(topic, group, **more))

    def ping(self) -> float:
        return self._inner.ping()

    def close(self) -> None:
        self._inner.close()
