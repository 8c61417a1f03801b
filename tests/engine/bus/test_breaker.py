"""The breaker: an outage stops deliveries without burning attempts, and one message finds out when it is over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import msgspec
import pytest
import redis

from engine.bus.breaker_board import BreakerBoard, LocalBoard, Pauses, RedisBreakers, Standing
from engine.bus.consumer import Consumer
from engine.bus.errors import RetryLater, Unrecoverable
from engine.bus.policy import BreakerPolicy, RetryPolicy
from engine.core.clock import ManualClock
from engine.core.errors import BadInput, Unavailable
from tests.engine.bus.kit import GROUP, TOPIC, Bus, Recorder, running, until

THREE = BreakerPolicy(failures=3, share=0.5, window_s=30, open_s=10, longest_open_s=80)
#: Attempts are not what ends these tests.
PATIENT = RetryPolicy(20, (1.0,))
WHERE = (TOPIC, GROUP)
WHOLE = Pauses(10_000, 80_000)


class Service:
    """What the handler calls: down until it is told otherwise."""

    def __init__(self) -> None:
        self.up = threading.Event()
        self.recorder = Recorder(self._call)

    def _call(self, message: Any, context: Any) -> None:
        if not self.up.is_set():
            raise ConnectionError("the service is away")


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture(params=["shared", "local"])
def board(request: pytest.FixtureRequest, redis_url: str, prefix: str, clock: ManualClock) -> Iterator[BreakerBoard]:
    if request.param == "local":
        yield LocalBoard(clock)
        return
    with redis.Redis.from_url(redis_url) as client:
        yield RedisBreakers(client, prefix, clock)


def _tick(clock: ManualClock) -> Any:
    return lambda: clock.advance(0.5)


def _open(consumer: Consumer) -> bool:
    return consumer.status().breaker == "open"


def test_an_outage_opens_it_and_nothing_more_is_delivered(bus: Bus, clock: ManualClock, service: Service) -> None:
    for number in range(40):
        bus.publish({"n": number})
    consumer = bus.consumer(service.recorder, retry=PATIENT, breaker=THREE, concurrency=1)
    with running(consumer):
        (opened,) = bus.facts.wait_for("breaker_opened")
        assert opened.error == "ConnectionError: the service is away"
        until(lambda: consumer.status().queued == consumer.status().unsettled == 0)
        tried = len(service.recorder.calls)
        turns = consumer.status().loop_age_s
        # Short of its pause (half of ten seconds at least) nobody is given anything.
        for _ in range(8):
            clock.advance(0.5)
        until(lambda: consumer.status().loop_age_s <= turns + 1, between=lambda: clock.advance(0.01))
        assert consumer.status().state == "breaker open"
        assert len(service.recorder.calls) == tried <= 6
        # A read that was under way when it opened may have brought them once more: they are handed back, too.
        until(lambda: bus.transport.admin.lag(*WHERE).in_flight == 0)
    assert bus.unsettled() == 40


def test_one_message_finds_out_and_closes_it(bus: Bus, clock: ManualClock, service: Service) -> None:
    for number in range(30):
        bus.publish({"n": number})
    consumer = bus.consumer(service.recorder, retry=PATIENT, breaker=THREE)
    with running(consumer):
        until(lambda: _open(consumer))
        # Each probe is one message, and each failure doubles the pause.
        until(lambda: len(bus.facts.of("breaker_opened")) >= 3, between=_tick(clock))
        assert len(bus.facts.of("breaker_probing")) == 2
        until(lambda: consumer.status().unsettled == 0)
        tried = len(service.recorder.calls)
        service.up.set()
        until(lambda: bool(bus.facts.of("breaker_closed")), between=_tick(clock))
        assert len(service.recorder.calls) >= tried + 1
        until(lambda: len(bus.facts.of("settled")) == 30, between=_tick(clock))
        assert consumer.status().breaker == "closed"
        assert not bus.facts.of("dead")


def test_one_poison_message_does_not_open_it(bus: Bus, clock: ManualClock) -> None:
    def poison(message: Any, context: Any) -> None:
        raise ValueError("always")

    bus.publish({"n": 1})
    consumer = bus.consumer(Recorder(poison), retry=RetryPolicy(8, (1.0,)), breaker=THREE)
    with running(consumer):
        until(lambda: bool(bus.facts.of("dead")), between=_tick(clock))
        assert consumer.status().breaker == "closed"
    assert not bus.facts.of("breaker_opened")


def test_messages_that_are_wrong_themselves_do_not_open_it(bus: Bus) -> None:
    def refuse(message: Any, context: Any) -> None:
        raise Unrecoverable("not for me")

    for number in range(20):
        bus.publish({"n": number})
    with running(bus.consumer(Recorder(refuse), breaker=THREE)):
        bus.facts.wait_for("dead", 20)
    assert not bus.facts.of("breaker_opened")


def test_few_failures_among_many_successes_do_not_open_it(bus: Bus) -> None:
    def every_fifth(message: Any, context: Any) -> None:
        if message.payload().endswith((b"0}", b"5}")):
            raise ValueError("now and then")

    for number in range(50):
        bus.publish({"n": number})
    with running(bus.consumer(Recorder(every_fifth), retry=RetryPolicy(1, (1.0,)), breaker=THREE, concurrency=1)):
        bus.facts.wait_for("dead", 10)
        bus.facts.wait_for("settled", 40)
    assert not bus.facts.of("breaker_opened")


def test_what_one_consumer_finds_holds_for_all(
    bus: Bus, clock: ManualClock, service: Service, redis_url: str, prefix: str
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        board = RedisBreakers(client, prefix, clock)
        idle = bus.consumer(service.recorder, name="c2", breaker=THREE, breakers=board)
        board.trip(*WHERE, "c1", "the service is away", WHOLE)
        with running(idle):
            until(lambda: _open(idle))
            bus.publish({"n": 1})
            clock.advance(2)
            assert not service.recorder.calls
            assert board.states([WHERE, ("other", "one")]) == {WHERE: "open"}
            opened_ms = board.look(*WHERE).since_ms
            assert board.outages([WHERE, ("other", "one")]) == {WHERE: opened_ms}
            service.up.set()
            until(lambda: bool(bus.facts.of("breaker_closed")), between=_tick(clock))
        assert board.states([WHERE]) == {}
        assert board.outages([WHERE]) == {}


def test_a_person_opens_and_closes_it(
    bus: Bus, clock: ManualClock, service: Service, redis_url: str, prefix: str
) -> None:
    service.up.set()
    with redis.Redis.from_url(redis_url) as client:
        board = RedisBreakers(client, prefix, clock)
        board.force_open(*WHERE, "the provider asked for silence")
        bus.publish({"n": 1})
        consumer = bus.consumer(service.recorder, breaker=THREE, breakers=board)
        with running(consumer):
            until(lambda: _open(consumer))
            for _ in range(400):
                clock.advance(1)
            # However long it takes, nobody probes what a person opened.
            assert not service.recorder.calls
            assert not bus.facts.of("breaker_probing")
            board.force_close(*WHERE, "it is over")
            until(lambda: bool(bus.facts.of("settled")), between=_tick(clock))


@pytest.mark.parametrize("up", [True, False])
def test_a_person_lets_one_message_be_tried_at_once(
    bus: Bus, service: Service, redis_url: str, prefix: str, up: bool
) -> None:
    clock = cast("ManualClock", bus.clock)
    if up:
        service.up.set()
    with redis.Redis.from_url(redis_url) as client:
        board = RedisBreakers(client, prefix, clock)
        board.force_open(*WHERE, "the provider asked for silence")
        for number in range(3):
            bus.publish({"n": number})
        consumer = bus.consumer(service.recorder, retry=PATIENT, breaker=THREE, breakers=board)
        with running(consumer):
            until(lambda: _open(consumer))
            assert board.force_trial(*WHERE).probe_due
            if up:
                until(lambda: len(bus.facts.of("settled")) == 3, between=_tick(clock))
                assert board.look(*WHERE).state == "closed"
                return
            until(lambda: bool(bus.facts.of("breaker_opened")), between=_tick(clock))
            standing = board.look(*WHERE)
            assert (standing.state, standing.forced, standing.opens) == ("open", False, 1)
            assert len(service.recorder.calls) == 1


def test_nothing_else_is_tried_until_the_board_knows_what_became_of_the_one(
    bus: Bus, clock: ManualClock, service: Service, redis_url: str, prefix: str
) -> None:
    tried: list[int] = []

    class Slow(RedisBreakers):
        def failed(self, *args: Any) -> Standing:
            looks = iter(range(50))
            until(lambda: next(looks) == 49 or len(service.recorder.calls) > 1, between=_tick(clock))
            tried.append(len(service.recorder.calls))
            return super().failed(*args)

    for number in range(3):
        bus.publish({"n": number})
    with redis.Redis.from_url(redis_url) as client:
        board = Slow(client, prefix, clock)
        board.force_open(*WHERE, "the provider asked for silence")
        consumer = bus.consumer(service.recorder, retry=PATIENT, breaker=THREE, breakers=board)
        with running(consumer):
            until(lambda: _open(consumer))
            board.force_trial(*WHERE)
            until(lambda: bool(bus.facts.of("breaker_opened")), between=_tick(clock))
    assert tried == [1]


def test_a_handler_that_asks_for_a_pause_opens_it_again_for_as_long(bus: Bus, clock: ManualClock) -> None:
    def busy(message: Any, context: Any) -> None:
        raise RetryLater(40, "come back later")

    board = LocalBoard(clock)
    board.trip(*WHERE, "c1", "the service is away", WHOLE)
    for number in range(20):
        bus.publish({"n": number})
    recorder = Recorder(busy)
    with running(bus.consumer(recorder, retry=PATIENT, breaker=THREE, breakers=board)):
        until(lambda: bool(bus.facts.of("breaker_opened")), between=_tick(clock))
        standing = board.look(*WHERE)
        assert (standing.state, standing.opens) == ("open", 2)
        assert standing.until_ms - standing.now_ms > 35_000
        assert len(recorder.calls) == 1, "one message is tried, whatever its handler asks for"


def test_no_pause_that_is_asked_for_is_longer_than_the_longest(clock: ManualClock) -> None:
    board = LocalBoard(clock)
    board.trip(*WHERE, "c1", "away", msgspec.structs.replace(WHOLE, least_ms=10**9))
    standing = board.look(*WHERE)
    assert standing.until_ms - standing.now_ms == WHOLE.longest_ms


def test_it_goes_on_alone_while_the_board_is_away(bus: Bus, clock: ManualClock, service: Service) -> None:
    class Away:
        def __getattr__(self, name: str) -> Any:
            def refuse(*_: Any) -> Standing:
                raise Unavailable("no board")

            return refuse

    for number in range(10):
        bus.publish({"n": number})
    consumer = bus.consumer(service.recorder, retry=PATIENT, breaker=THREE, breakers=Away())
    with running(consumer):
        until(lambda: _open(consumer))
        service.up.set()
        until(lambda: len(bus.facts.of("settled")) == 10, between=_tick(clock))


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_rest(board: BreakerBoard, clock: ManualClock) -> None:
    standing = board.trip(*WHERE, "c1", "away", WHOLE)
    pauses = [standing.until_ms - standing.now_ms]
    for _ in range(4):
        clock.advance(pauses[-1] / 1000)
        assert board.probe(*WHERE, "c1").prober == "c1"
        standing = board.failed(*WHERE, "c1", "still away", WHOLE)
        pauses.append(standing.until_ms - standing.now_ms)
    assert pauses == [10_000, 20_000, 40_000, 80_000, 80_000]
    clock.advance(80)
    board.probe(*WHERE, "c1")
    assert board.passed(*WHERE, "c1").changed
    # It flaps: the pauses go on where they were …
    standing = board.trip(*WHERE, "c1", "away", WHOLE)
    assert standing.until_ms - standing.now_ms == 80_000
    clock.advance(80)
    board.probe(*WHERE, "c1")
    board.passed(*WHERE, "c1")
    # … until it was well for longer than the longest of them.
    clock.advance(81)
    standing = board.trip(*WHERE, "c1", "away", WHOLE)
    assert standing.until_ms - standing.now_ms == 10_000


def test_only_one_consumer_probes_and_another_takes_over_when_it_falls_silent(
    redis_url: str, prefix: str, clock: ManualClock
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        board = RedisBreakers(client, prefix, clock)
        board.trip(*WHERE, "c1", "away", WHOLE)
        assert board.probe(*WHERE, "c1").state == "open"
        clock.advance(10)
        assert board.probe(*WHERE, "c2").prober == "c2"
        assert board.probe(*WHERE, "c1").prober == "c2"
        # Only the prober's word counts.
        assert board.passed(*WHERE, "c1").state == "probing"
        clock.advance(11)
        assert board.probe(*WHERE, "c1").prober == "c1"


def test_of_many_that_act_at_once_one_changes_it(redis_url: str, prefix: str, clock: ManualClock) -> None:
    with redis.Redis.from_url(redis_url) as client, ThreadPoolExecutor(8) as threads:
        boards = [RedisBreakers(client, prefix, clock) for _ in range(8)]
        for group in ("one", "two", "three", "four"):
            together = threading.Barrier(len(boards))

            def trip(board: RedisBreakers, group: str = group, together: threading.Barrier = together) -> Standing:
                together.wait()
                return board.trip(TOPIC, group, "c", "away", WHOLE)

            standings = list(threads.map(trip, boards))
            assert [standing.changed for standing in standings].count(True) == 1
            assert {(standing.state, standing.opens) for standing in standings} == {("open", 1)}


@pytest.mark.parametrize(
    "bad",
    [
        {"failures": -1},
        {"share": 0},
        {"window_s": 0},
        {"open_s": 0.5},
        {"longest_open_s": 1},
        {"failures": 10_001},
    ],
)
def test_policies_that_cannot_work_are_refused_with_their_field(bad: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as refused:
        BreakerPolicy(**bad)
    assert refused.value.field == f"breaker_{next(iter(bad))}"
