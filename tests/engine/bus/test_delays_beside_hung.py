"""A store that hangs holds up what is due there, and nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator

import pytest

from engine.bus import at_carriers
from engine.bus.at_carriers import AtCarriers
from engine.bus.catalog import StaticCatalog
from engine.bus.config import BusConfig
from engine.bus.conformance.running import until
from engine.bus.delay_mover import DelayMover
from engine.bus.delays import RedisDelays
from engine.bus.options import PublishOptions
from engine.bus.producer import Producer
from engine.bus.registry import open_transport
from engine.bus.transport import Transport
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from tests.engine.bus.kit import TOPIC, Bus
from tests.engine.bus.test_delays import bus, there
from tests.engine.bus.transports.proxy import Proxy

__all__ = ["bus"]

HUNG = ("a.hung", "b.hung", "c.hung")


@pytest.fixture
def nsqd(nsqd_url: str) -> Iterator[Proxy]:
    """The way to a real one."""
    proxy = Proxy(int(nsqd_url.rpartition(":")[2]))
    yield proxy
    proxy.close()


@pytest.fixture
def nsq(nsqd: Proxy, redis_url: str, prefix: str) -> Iterator[Transport]:
    options = {"nsqd": f"127.0.0.1:{nsqd.port}"}
    made = open_transport(BusConfig(type="nsq", url=redis_url, prefix=f"{prefix}n", options=options))
    for each in HUNG:
        made.admin.create_topic(each)
    yield made
    made.close()


@pytest.fixture
def producer(bus: Bus, delays: RedisDelays, clock: ManualClock, nsq: Transport) -> Producer:
    """Of one topic on Redis, and three on NSQ."""
    policies = [dataclasses.replace(bus.policy, name=each, transport="nsq") for each in HUNG]
    return Producer(
        lambda name: nsq if name == "nsq" else bus.transport,
        StaticCatalog(bus.policy, *policies),
        source="/s",
        facts=bus.facts,
        clock=clock,
        delays=delays,
    )


def ticked(mover: DelayMover) -> None:
    with contextlib.suppress(Unavailable):
        mover.tick()


def test_a_store_that_hangs_delays_nothing_of_another(
    bus: Bus, delays: RedisDelays, clock: ManualClock, nsqd: Proxy, producer: Producer
) -> None:
    for each in HUNG:
        producer.publish(each, {"n": 0}, PublishOptions(delay_s=1))
    producer.publish(TOPIC, {"n": 1}, PublishOptions(delay_s=2))
    nsqd.mode = "mute"
    clock.advance(2)
    mover = DelayMover(delays, lambda: producer)
    ticking = threading.Thread(target=ticked, args=(mover,))
    ticking.start()
    until(lambda: there(bus) == [1])
    # They are on their way still, and it stays claimed until that is seen to.
    assert delays._store.zcard(delays._moving) == len(HUNG) + 1
    clock.advance(at_carriers.PATIENCE_S)
    ticking.join()
    assert delays._store.zcard(delays._moving) == len(HUNG)
    # And from now on nobody waits for it.
    producer.publish(TOPIC, {"n": 2}, PublishOptions(delay_s=1))
    producer.publish(HUNG[0], {"n": 0}, PublishOptions(delay_s=1))
    clock.advance(1)
    mover.tick()
    assert there(bus) == [1, 2]
    assert (delays._store.zcard(delays._moving), delays.count()) == (len(HUNG), len(HUNG) + 1)

    nsqd.mode = "pass"
    nsqd.cut()
    until(lambda: delays.count() == 0, between=lambda: (clock.advance(1), ticked(mover)))
    assert {fact.topic for fact in bus.facts.seen if fact.kind == "published"} == {TOPIC, *HUNG}


def waits(gate: threading.Event, *failures: Exception) -> Callable[[], list[Exception]]:
    def work() -> list[Exception]:
        gate.wait()
        return list(failures)

    return work


def test_who_hangs_is_waited_for_once_and_again_after_it_has_done_something_well() -> None:
    clock = ManualClock()
    at, gate, again = AtCarriers(clock), threading.Event(), threading.Event()
    assert at.begin("slow", waits(gate, Unavailable("too late")))
    # Its own thread moves the clock: who is waited for is let go only by that.
    waiting = threading.Thread(target=at.wait)
    waiting.start()
    clock.advance(at_carriers.PATIENCE_S)
    waiting.join()
    assert not at.begin("slow", waits(gate))
    assert at.over() == []
    assert at.begin("well", list)
    at.wait()
    assert (at.over(), at.take("well")) == (["well"], [])
    gate.set()
    slow = at._carriers["slow"]
    assert slow.over.wait(60)
    # What became of it is seen before anything goes there again.
    assert not at.begin("slow", waits(gate))
    assert (at.is_free("slow"), at.over()) == (False, ["slow"])
    assert [str(each) for each in at.take("slow")] == ["too late"]
    assert (at.is_free("slow"), at.over()) == (True, [])
    # It has failed: the clock stands still, and nobody would come back who waits for it.
    assert at.begin("slow", waits(again))
    at.wait()
    assert not slow.over.is_set()
    again.set()
    assert slow.over.wait(60)
    assert not slow.hangs


def test_what_goes_wrong_elsewhere_is_raised_where_it_was_asked_for() -> None:
    at = AtCarriers(ManualClock())

    def fall() -> list[BaseException]:
        raise ArithmeticError("ours")

    assert at.begin("", fall)
    at.wait()
    assert [type(each) for each in at.take("")] == [ArithmeticError]
    assert at.begin("", list)
