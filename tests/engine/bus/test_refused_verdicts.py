"""A verdict that the store refuses: what a try before it has done is told, and what none can have done is not."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from engine.bus.config import BusConfig
from engine.bus.consuming.settler import TRIES, Finished
from engine.bus.errors import Unrecoverable
from engine.bus.partitions import Partitioned
from engine.bus.transport import Delivery, Outgoing, Settlement
from engine.bus.transports.nsq.side_store import SideStore
from engine.bus.transports.redis_stream.receiver import PartitionReader
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from engine.core.store.failures import AnswerLost, NotSent, Refused
from tests.engine.bus.kit import GROUP, PATIENCE_S, TOPIC, Bus, Recorder, make_bus, running, until

LEASE_S = 9.0


@pytest.mark.parametrize("dies", [False, True], ids=["handled", "dead"])
@pytest.mark.parametrize("error", [NotSent, AnswerLost])
def test_what_another_has_settled_meanwhile_is_told_only_where_it_may_have_been_this_one(
    bus: Bus, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, error: type[Unavailable], dies: bool
) -> None:
    # Given a consumer that alone cannot reach the store with what it has decided
    away = threading.Event()
    called = bus.transport.called

    def cut_off(verb: str) -> None:
        called(verb)
        if away.is_set():
            raise error("the wire is cut")

    def handle(message: Any, context: Any) -> None:
        away.set()
        if dies:
            raise Unrecoverable("no such room")

    monkeypatch.setattr(bus.transport, "called", cut_off)
    bus.publish({"n": 1})
    consumer = bus.consumer(Recorder(handle), lease_s=LEASE_S)
    with running(consumer):
        bus.facts.wait_for("store_lost")
        # When another gets the message after its lease, and settles it
        clock.advance(LEASE_S + 1)
        other = bus.transport.inner.receiver(TOPIC, GROUP, consumer="c2", lease_ms=60_000)
        (again,) = other.receive(1, PATIENCE_S)
        assert other.settle([Settlement(again.receipt)]) == [True]
        away.clear()
        until(lambda: consumer.status().unsettled == 0, between=lambda: clock.advance(1))
        # Then what certainly never got there is no evidence, and what may have been done is not denied
        until(lambda: bool(bus.facts.of("lease_lost") or bus.facts.of("settled") or bus.facts.of("dead")))
        told = {kind for kind in bus.facts.kinds() if kind in ("settled", "dead", "lease_lost")}
        counted = (consumer.status().handled, consumer.status().failed)
    if error is NotSent:
        assert (told, counted) == ({"lease_lost"}, (0, 0))
    else:
        assert (told, counted) == ({"dead" if dies else "settled"}, (1, int(dies)))


def test_what_a_try_settled_before_it_broke_is_told(bus: Bus, clock: ManualClock) -> None:
    """A defect behind the store's answer is no sign that it was not done, but for the one that always breaks."""
    consumer = bus.consumer(Recorder())
    scope, settler = consumer._scope, consumer._settler
    for n in range(3):
        bus.publish({"n": n})
    held = scope.in_flight.take(scope.receiver.receive(3, 0), clock.monotonic())
    bad, settle, tries = held[2].delivery.receipt, scope.receiver.settle, []

    def broken(batch: Sequence[Settlement]) -> list[bool]:
        good = [each for each in batch if each.receipt != bad]
        answers = settle(good)
        if len(good) < len(batch):
            tries.append(len(batch))
            raise ValueError("a defect")
        return answers

    scope.receiver.settle = broken  # type: ignore[method-assign]
    for each in held:
        settler.add(Finished(each, "settled", 0))
    settler.close()
    thread = threading.Thread(target=settler.run)
    thread.start()
    until(lambda: not thread.is_alive(), between=lambda: clock.advance(1))
    assert tries[:TRIES] == [3] * TRIES
    positions = {kind: {fact.position for fact in bus.facts.of(kind)} for kind in ("settled", "lease_lost")}
    assert positions == {
        "settled": {each.delivery.position for each in held[:2]},
        "lease_lost": {held[2].delivery.position},
    }


@pytest.mark.parametrize("breaks", [0, 1])
def test_a_batch_over_partitions_that_broke_half_way_is_not_untouched(
    redis_url: str, prefix: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, breaks: int
) -> None:
    transport = make_bus(BusConfig(url=redis_url, prefix=prefix), clock, partitions=2).transport.inner
    assert isinstance(transport, Partitioned)
    transport.publish(TOPIC, [Outgoing(str(n), b"%d" % n, partition=n) for n in range(2)])
    receiver = transport.partitioned_receiver(TOPIC, GROUP, consumer="c", lease_ms=60_000, partitions=2, seat_ms=60_000)
    receiver.turn(sit=True)
    deliveries: list[Delivery] = receiver.receive(2, PATIENCE_S)
    assert len(deliveries) == 2
    settle, calls = PartitionReader.settle, []

    def breaking(end: PartitionReader, *args: Any) -> list[bool]:
        calls.append(end)
        if len(calls) == breaks + 1:
            raise NotSent("the wire is cut")
        return settle(end, *args)

    monkeypatch.setattr(PartitionReader, "settle", breaking)
    batch = [Settlement(each.receipt) for each in deliveries]
    with pytest.raises(NotSent) as caught:
        receiver.settle(batch)
    assert caught.value.untouched is (breaks == 0)
    assert receiver.settle(batch) == [breaks == 0, True]
    receiver.close()
    transport.close()


def test_a_refusal_says_whether_a_script_may_have_stopped_half_way() -> None:
    said = {
        words: Refused("here", words).untouched
        for words in (
            "OOM command not allowed when used memory > 'maxmemory'.",
            "Error running script (call to f_1a): @user_script:3: -MISCONF Redis cannot write",
            "WRONGTYPE hbus:{OOM}:dead is a list",
            "ERR The stream has exhausted the last possible ID",
        )
    }
    assert list(said.values()) == [True, True, False, False]


def test_the_store_beside_nsq_is_as_sure_as_its_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SideStore("redis://127.0.0.1:1/0")
    with pytest.raises(Unavailable) as never_sent:
        store.run("settle", ["k"], [])
    assert never_sent.value.untouched

    def lost(*_: object) -> None:
        raise AnswerLost("the connection broke")

    monkeypatch.setattr(store._link, "run", lost)
    with pytest.raises(Unavailable) as unheard:
        store.run("settle", ["k"], [])
    assert not unheard.value.untouched
    store.close()
