"""A store that goes away, comes back, or forgets: said once, healed, nothing lost."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
import redis

from engine.bus.config import BusConfig
from engine.bus.consuming.scope import FIRST_PAUSE_S, LONGEST_PAUSE_S, Backoff
from engine.bus.errors import PublishFailed, PublishUnknown
from engine.bus.message import decode
from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import Unavailable
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.kit import GROUP, PATIENCE_S, TOPIC, Bus, Recorder, make_bus, running, until


def test_an_absent_store_is_said_once_and_its_return_once(bus: Bus, clock: ManualClock) -> None:
    handler = Recorder()
    bus.transport.failing.add("receive")
    consumer = bus.consumer(handler)
    with running(consumer):
        (lost,) = bus.facts.wait_for("store_lost")
        assert (lost.topic, lost.subscription, lost.node) == (TOPIC, GROUP, "c1")
        tries = bus.transport.calls("receive")
        until(lambda: bus.transport.calls("receive") > tries + 3, between=lambda: clock.advance(1))
        assert consumer.status().state == "store lost"
        assert "fails on demand" in consumer.status().last_error
        bus.publish({"n": 1})
        bus.transport.failing.clear()
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
        assert consumer.status().state == "running"
    assert len(bus.facts.of("store_lost")) == len(bus.facts.of("store_back")) == 1


def test_messages_that_a_receiver_finds_gone_are_told_once(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ["17", "18"]

    def take_vanished(_: object) -> list[str]:
        told, gone[:] = gone[:], []
        return told

    opened = bus.transport.inner.receiver(TOPIC, GROUP, consumer="c1", lease_ms=1_000)
    monkeypatch.setattr(type(opened), "take_vanished", take_vanished, raising=False)
    with running(bus.consumer(Recorder(), transport=bus.transport.inner)):
        (fact,) = bus.facts.wait_for("vanished")
    assert (fact.topic, fact.subscription, fact.position, fact.size) == (TOPIC, GROUP, "17", 2)
    assert len(bus.facts.of("vanished")) == 1


def test_pauses_grow_up_to_a_bound_and_start_again_small() -> None:
    class Full:
        def random(self) -> float:
            return 1.0

    backoff = Backoff(Full())  # type: ignore[arg-type]
    pauses = [backoff.next_s() for _ in range(100)]
    assert pauses[:3] == [FIRST_PAUSE_S, FIRST_PAUSE_S * 2, FIRST_PAUSE_S * 4]
    assert pauses[-1] == LONGEST_PAUSE_S
    backoff.reset()
    assert backoff.next_s() == FIRST_PAUSE_S


def test_decisions_wait_for_the_store_and_are_settled_when_it_is_back(bus: Bus, clock: ManualClock) -> None:
    handler = Recorder()
    with running(bus.consumer(handler)):
        bus.transport.wait_for("receive", 1)
        bus.transport.failing.add("settle")
        bus.publish({"n": 1})
        handler.wait_for(1)
        tries = bus.transport.calls("settle")
        until(lambda: bus.transport.calls("settle") > tries + 2, between=lambda: clock.advance(1))
        bus.transport.failing.clear()
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
    assert len(handler.calls) == 1
    assert bus.unsettled() == 0


def test_a_settlement_whose_answer_was_lost_is_no_lost_lease(bus: Bus, clock: ManualClock) -> None:
    class AnswerLost:
        """Settles, and then the wire breaks."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner
            self.broke = False

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def settle(self, batch: Any) -> list[bool]:
            answers: list[bool] = self._inner.settle(batch)
            if not self.broke:
                self.broke = True
                raise Unavailable("the connection broke")
            return answers

    make = bus.transport.receiver
    bus.transport.receiver = lambda *a, **k: AnswerLost(make(*a, **k))  # type: ignore[method-assign]
    bus.publish({"n": 1})
    with running(bus.consumer(Recorder())):
        bus.facts.wait_for("store_lost")
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
    assert bus.facts.of("lease_lost") == []
    assert "store was away" in bus.facts.of("settled")[0].detail


def test_a_batch_that_can_never_be_settled_holds_nobody_up(bus: Bus, clock: ManualClock) -> None:
    make = bus.transport.receiver
    refusals: list[int] = []

    class Refusing:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def settle(self, batch: Any) -> list[bool]:
            if len(refusals) < 3:
                refusals.append(len(batch))
                raise ValueError("a defect")
            answers: list[bool] = self._inner.settle(batch)
            return answers

    bus.transport.receiver = lambda *a, **k: Refusing(make(*a, **k))  # type: ignore[method-assign]
    handler = Recorder()
    bus.publish({"n": 1})
    consumer = bus.consumer(handler, lease_s=5.0)
    with running(consumer):
        until(lambda: bool(bus.facts.of("lease_lost")), between=lambda: clock.advance(1))
        assert consumer.status().last_error == "ValueError: a defect"
        # Its lease runs out, and it is delivered and settled again.
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
    assert len(handler.calls) == 2


def test_a_loop_that_breaks_is_started_again_and_shown(
    bus: Bus, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    bus.transport.once["receive"] = RuntimeError("a defect")
    consumer = bus.consumer(Recorder())
    bus.publish({"n": 1})
    with running(consumer):
        until(lambda: bool(bus.facts.of("settled")), between=lambda: clock.advance(1))
        assert consumer.status().last_error == "RuntimeError: a defect"
        assert consumer.status().dead_threads == ()
    assert "reader broke and is started again" in caplog.text


class Record:
    """Positions remembered outside the store."""

    def __init__(self, position: str = "", error: Exception | None = None) -> None:
        self._position = position
        self._error = error

    def last(self, topic: str, group: str) -> str:
        assert (topic, group) == (TOPIC, GROUP)
        if self._error is not None:
            raise self._error
        return self._position


def test_a_lost_group_is_made_anew_at_the_recorded_position(any_bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    first = any_bus.publish({"n": 1})
    any_bus.publish({"n": 2})
    any_bus.transport.admin.delete_group(TOPIC, GROUP)
    handler = Recorder()
    with running(any_bus.consumer(handler, positions=Record(first.position))):
        (fact,) = any_bus.facts.wait_for("group_lost")
        any_bus.facts.wait_for("settled")
    assert [message.json()["n"] for message in handler.calls] == [2]
    assert (fact.subscription, fact.position) == (GROUP, first.position)
    assert "recorded outside the store" in fact.detail
    assert [each.levelno for each in caplog.records if "was lost from the store" in each.message] == [logging.CRITICAL]


def test_without_a_record_a_lost_group_begins_at_the_checkpoint_this_consumer_remembers(
    bus: Bus, clock: ManualClock
) -> None:
    handler = Recorder()
    with running(bus.consumer(handler, lease_s=9.0)):
        bus.publish({"n": 1})
        bus.facts.wait_for("settled")
        admin = bus.transport.admin
        checkpoint = admin.checkpoint(TOPIC, GROUP)
        # A few beats of the heart, each of which asks for the checkpoint.
        for _ in range(4):
            clock.advance(3)
            reads = bus.transport.calls("receive")
            bus.transport.wait_for("receive", reads + 1)
        admin.delete_group(TOPIC, GROUP)
        bus.publish({"n": 2})
        (fact,) = bus.facts.wait_for("group_lost")
        bus.facts.wait_for("settled", 2)
    assert fact.position == checkpoint
    assert [message.json()["n"] for message in handler.calls] == [1, 2]


@pytest.mark.parametrize("record", [Record(), Record(error=RuntimeError("the database is away")), Record("nonsense!")])
def test_without_any_usable_position_a_lost_group_begins_at_the_beginning(bus: Bus, record: Record) -> None:
    bus.publish({"n": 1})
    bus.transport.admin.delete_group(TOPIC, GROUP)
    handler = Recorder()
    with running(bus.consumer(handler, positions=record)):
        (fact,) = bus.facts.wait_for("group_lost")
        bus.facts.wait_for("settled")
    assert fact.position == "beginning"
    assert len(handler.calls) == 1


@pytest.fixture
def live(own_store: StandaloneStore) -> Any:
    """A bus on a Valkey of its own, in real time."""
    made = make_bus(BusConfig(url=own_store.url, prefix="live"), SystemClock())
    yield made
    made.transport.close()


def test_a_store_killed_and_restarted_under_a_consumer_loses_nothing(live: Bus, own_store: StandaloneStore) -> None:
    handler = Recorder()
    published: set[str] = set()

    def publish(n: int) -> bool:
        try:
            published.add(live.publish({"n": n}, idempotency_key=f"n{n}").message_id)
        except (PublishFailed, PublishUnknown):
            return False
        return True

    with running(live.consumer(handler, lease_s=2.0, concurrency=4)):
        for n in range(300):
            assert publish(n)
        handler.wait_for(100)
        own_store.kill()
        assert not publish(300)
        live.facts.wait_for("store_lost")
        own_store.start()
        for n in range(300, 600):
            until(lambda n=n: publish(n))  # type: ignore[misc]
        live.facts.wait_for("store_back")
        live_ids = {decode(entry.body).id for entry in live.transport.admin.browse(TOPIC, limit=1000).entries}
        # What the append-only file had not yet on disk is gone with the crash; whatever is there must be settled.
        until(lambda: live_ids <= {fact.message_id for fact in live.facts.of("settled")})
        until(lambda: live.unsettled() == 0)
    assert {f"{message.json()['n']}" for message in handler.calls} >= {str(n) for n in range(300, 600)}
    assert len(live.facts.of("store_lost")) == len(live.facts.of("store_back"))


def test_flushall_under_a_live_consumer_is_loud_and_healed(live: Bus, own_store: StandaloneStore) -> None:
    handler = Recorder()
    with running(live.consumer(handler)):
        live.publish({"n": 1})
        live.facts.wait_for("settled")
        client = redis.Redis.from_url(own_store.url)
        client.flushall()
        client.close()
        live.facts.wait_for("group_lost")
        live.publish({"n": 2})
        live.facts.wait_for("settled", 2)
    assert [message.json()["n"] for message in handler.calls] == [1, 2]


def test_a_flush_while_a_handler_runs_does_not_stop_what_follows(live: Bus, own_store: StandaloneStore) -> None:
    go_on = threading.Event()
    handler = Recorder(lambda message, context: None if message.json()["n"] else _wait(go_on))
    # The reader is waiting for the handler: it is the heart that notices.
    with running(live.consumer(handler, concurrency=1, lease_s=1.5)):
        live.publish({"n": 0})
        handler.wait_for(1)
        client = redis.Redis.from_url(own_store.url)
        client.flushall()
        client.close()
        live.facts.wait_for("group_lost")
        go_on.set()
        live.facts.wait_for("lease_lost")
        live.publish({"n": 1})
        live.facts.wait_for("settled")


def _wait(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S)
