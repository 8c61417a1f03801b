"""The traps of NSQ and pynsq that research found, each with what is done about it."""

from __future__ import annotations

import contextlib
import logging
import struct
import time

import pytest

from engine.bus.transport import Attempt, Settlement, Status, Verdict
from engine.bus.transports.nsq import connection as connection_module
from engine.bus.transports.nsq.connection import Arrived, NsqdConnection
from engine.bus.transports.nsq.loop import EventLoopThread
from engine.core.errors import BadInput, Unavailable
from tests.engine.bus.transports.nsq.conftest import GROUP, LEASE_MS, TOPIC, Bench, eventually, settle, take
from tests.engine.bus.transports.nsq.raw import RawClient, channel, tcp_port


def test_a_message_that_came_often_is_not_dropped(bench: Bench, nsqd_url: str) -> None:
    """pynsq's reader finishes, that is drops, the sixth attempt."""
    bench.publish(b"poison")
    other = RawClient(tcp_port(nsqd_url), bench.nsq_topic, GROUP)
    for expected in range(1, 9):
        message_id, attempts, _ = other.next()
        assert attempts == expected
        other.requeue(message_id)
    other.close()

    # It was never handed out by us: that is no failed attempt
    assert [(each.body, each.attempt) for each in take(bench.receiver(), 1)] == [(b"poison", 1)]


def test_attempts_are_counted_to_any_number_with_their_history(bench: Bench) -> None:
    bench.publish(b"poison")
    receiver = bench.receiver()
    for number in range(1, 13):
        (delivery,) = take(receiver, 1)
        assert delivery.attempt == number
        assert len(delivery.history) == number - 1
        attempt = Attempt(number, 1_790_000_000_000, 5, "one", f"error {number}")
        assert receiver.settle([Settlement(delivery.receipt, Verdict.RETRY, 0, attempt)]) == [True]


def test_what_fails_on_the_loop_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    """pynsq swallows what a coroutine raises."""
    loop = EventLoopThread()

    def fail() -> None:
        raise ValueError("nobody would know")

    with caplog.at_level(logging.ERROR):
        loop.post(fail)
        loop.call(lambda: None)
    assert "nobody would know" in caplog.text
    with pytest.raises(ValueError, match="nobody"):
        loop.call(fail)
    loop.close()


def test_what_cannot_be_read_ends_the_connection_and_is_read_again_on_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take_frames, failures = NsqdConnection._take, []

    def fail_once(self: NsqdConnection, data: bytes) -> bytes:
        if not failures and b"x" * 50 in data:
            failures.append(data)
            raise struct.error("not a frame")
        return take_frames(self, data)

    monkeypatch.setattr(NsqdConnection, "_take", fail_once)
    receiver = bench.receiver()
    assert receiver.receive(1, 0) == []
    with caplog.at_level(logging.WARNING):
        bench.publish(b"x" * 50)
        found: list[bytes] = []

        def came() -> bool:
            with contextlib.suppress(Unavailable):
                found.extend(each.body for each in receiver.receive(1, 0.2))
            return bool(found)

        eventually(came)

    assert failures
    assert found == [b"x" * 50]
    assert "unreadable" in caplog.text


def test_a_delay_with_a_fraction_is_kept(bench: Bench) -> None:
    """pynsq ignores a float and waits for 90 s, or trips over it and cuts the connection."""
    bench.publish(b"x")
    receiver = bench.receiver()
    (delivery,) = take(receiver, 1)
    settled_at = time.monotonic()
    assert receiver.settle([Settlement(delivery.receipt, Verdict.RETRY, 1_250)]) == [True]

    (again,) = take(receiver, 1)

    assert time.monotonic() - settled_at >= 1.2
    assert again.attempt == 2


def test_a_delay_does_not_live_in_nsqds_memory(bench: Bench, nsqd_url: str) -> None:
    bench.publish(b"x")
    receiver = bench.receiver()
    (delivery,) = take(receiver, 1)
    receiver.settle([Settlement(delivery.receipt, Verdict.RETRY, 3_600_000)])

    eventually(lambda: channel(nsqd_url, bench.nsq_topic, GROUP)["in_flight_count"] == 0)
    assert channel(nsqd_url, bench.nsq_topic, GROUP)["deferred_count"] == 0
    assert bench.admin.lag(TOPIC, GROUP).retrying == 1


def test_one_poisoned_message_does_not_stall_the_others(bench: Bench) -> None:
    """pynsq's backoff takes RDY to zero on every connection."""
    bench.publish(b"poison", *[b"m%d" % index for index in range(60)])
    receiver = bench.receiver()
    good: set[bytes] = set()

    def all_good() -> bool:
        for each in receiver.receive(5, 0.5):
            if each.body == b"poison":
                receiver.settle([Settlement(each.receipt, Verdict.RETRY, 0)])
            else:
                settle(receiver, [each])
                good.add(each.body)
        return len(good) == 60

    eventually(all_good)


def test_a_closed_receiver_stays_closed(bench: Bench, nsqd_url: str) -> None:
    """pynsq's reader connects again after it was closed."""
    receiver = bench.receiver()
    receiver.receive(1, 0)
    assert channel(nsqd_url, bench.nsq_topic, GROUP)["client_count"] == 1

    receiver.close()

    eventually(lambda: channel(nsqd_url, bench.nsq_topic, GROUP)["client_count"] == 0)
    assert receiver.receive(1, 1.5) == []
    time.sleep(1.2)
    assert channel(nsqd_url, bench.nsq_topic, GROUP)["client_count"] == 0


def test_what_was_only_buffered_goes_back_when_a_receiver_closes(bench: Bench) -> None:
    bench.publish(*[b"m%d" % index for index in range(200)])
    one = bench.receiver("one", lease_ms=60_000)
    mine = take(one, 50)
    one.close()

    # A minute's lease is not waited for: what nobody was given comes at once, and as a first attempt
    two = bench.receiver("two", lease_ms=60_000)
    rest = take(two, 150)
    assert {each.body for each in [*mine, *rest]} == {b"m%d" % index for index in range(200)}
    assert {each.attempt for each in rest} == {1}


def test_what_a_busy_consumer_does_not_ask_for_goes_to_others(bench: Bench) -> None:
    one, two = bench.receiver("one", lease_ms=60_000), bench.receiver("two", lease_ms=60_000)
    assert one.receive(100, 0) == []
    bench.publish(*[b"m%d" % index for index in range(20)])

    # One was reading ahead and asks for nothing more
    assert len(take(two, 20)) == 20


def test_an_empty_message_is_refused_and_its_neighbours_are_not(bench: Bench) -> None:
    """To pynsq an empty body has no length, and what follows is read as one."""
    outcomes = bench.try_to_publish(b"before", b"", b"after")

    assert [outcome.status for outcome in outcomes] == [Status.OK, Status.FAILED, Status.OK]
    assert "empty" in outcomes[1].error
    assert {each.body for each in take(bench.receiver(), 2)} == {b"before", b"after"}


def test_a_message_beyond_the_limit_is_refused_alone_and_the_limit_is_taken(bench: Bench) -> None:
    limit = bench.transport.capabilities.max_bytes
    outcomes = bench.try_to_publish(b"x" * limit, b"y" * (limit + 1), b"z")

    assert [outcome.status for outcome in outcomes] == [Status.OK, Status.FAILED, Status.OK]
    assert f"{limit:,}" in outcomes[1].error
    assert {len(each.body) for each in take(bench.receiver(), 2)} == {limit, 1}


@pytest.mark.parametrize("name", ["with blank", "slash/", "", "ümlaut", "x" * 65])
def test_a_name_that_nsqd_answers_by_hanging_up_is_never_sent(bench: Bench, name: str) -> None:
    with pytest.raises(BadInput) as refused:
        bench.transport.publish(name, [])
    assert refused.value.field == "topic"
    with pytest.raises(BadInput):
        bench.admin.create_group(TOPIC, name)


def test_attempts_beyond_the_range_of_a_signed_number_are_read_right() -> None:
    arrived: list[Arrived] = []
    made = NsqdConnection(
        "127.0.0.1", 1, topic="t", channel="c", consumer="one", timeout_ms=1_000, started_s=0,
        on_messages=arrived.extend, on_change=lambda: None,
    )  # fmt: skip
    payload = struct.pack(">qH", 1_790_000_000_000_000_000, 65_535) + b"0123456789abcdef" + b"body"
    frame = struct.pack(">ii", 4 + len(payload), 2) + payload

    rest = made._take(frame + frame[:7])

    assert [(each.id, each.attempts, each.body) for each in arrived] == [("0123456789abcdef", 65_535, b"body")]
    assert rest == frame[:7]


def test_a_late_ack_is_honoured_and_nsqds_copy_comes_to_nobody(bench: Bench) -> None:
    """nsqd answers a late FIN with an error that pynsq only logs."""
    bench.publish(b"x")
    one, two = bench.receiver("one"), bench.receiver("two")
    old = take(one, 1)
    new = take(two, 1)
    assert (new[0].attempt, new[0].history[0].consumer) == (2, "one")

    assert settle(one, old) == [True]
    assert settle(two, new) == [False]

    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        assert one.receive(1, 0.2) == []
    assert bench.admin.lag(TOPIC, GROUP).unsettled == 0


def test_a_retry_of_a_lost_lease_is_refused(bench: Bench) -> None:
    bench.publish(b"x")
    one, two = bench.receiver("one"), bench.receiver("two")
    old, new = take(one, 1), take(two, 1)

    assert settle(one, old, Verdict.RETRY) == [False]
    assert one.extend([old[0].receipt]) == [False]
    assert settle(two, new) == [True]


def test_an_ack_after_the_connection_has_gone_holds(bench: Bench, nsqd_url: str) -> None:
    # Given a consumer whose connection is closed while its handler runs
    bench.publish(b"x", b"y")
    one = bench.receiver("one")
    first, second = take(one, 2)
    one.close()
    eventually(lambda: channel(nsqd_url, bench.nsq_topic, GROUP)["client_count"] == 0)

    # When it settles one of the two after all
    assert settle(one, [first]) == [True]

    # Then nsqd sends both again, and only the other is handed out
    two = bench.receiver("two")
    (again,) = take(two, 1)
    assert (again.body, again.attempt) == (second.body, 2)
    assert settle(two, [again]) == [True]
    eventually(lambda: channel(nsqd_url, bench.nsq_topic, GROUP)["depth"] == 0)
    assert two.receive(1, 1.0) == []


def test_a_handler_may_block_beyond_several_heartbeats(
    bench: Bench, nsqd_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On pynsq's loop a handler that blocks for two heartbeats loses the connection with all that is in flight."""
    monkeypatch.setattr(connection_module, "HEARTBEAT_S", 1)
    bench.publish(b"x")
    receiver = bench.receiver(lease_ms=10_000)
    delivery = take(receiver, 1)

    def connected() -> list[int]:
        return [each["connect_ts"] for each in channel(nsqd_url, bench.nsq_topic, GROUP)["clients"]]

    before = connected()

    time.sleep(3.5)

    assert connected() == before != []
    assert settle(receiver, delivery) == [True]
    eventually(lambda: channel(nsqd_url, bench.nsq_topic, GROUP)["in_flight_count"] == 0)


def test_a_handler_that_beats_keeps_its_message_beyond_the_lease(bench: Bench) -> None:
    """pynsq touches nothing by itself."""
    bench.publish(b"x")
    lease_ms = 3 * LEASE_MS
    one, two = bench.receiver("one", lease_ms), bench.receiver("two", lease_ms)
    (delivery,) = take(one, 1)
    for _ in range(4):
        time.sleep(LEASE_MS / 1000)
        assert one.extend([delivery.receipt]) == [True]
        assert two.receive(1, 0) == []
    assert settle(one, [delivery]) == [True]
    assert two.receive(1, 1.0) == []
