"""Restarts, flushes and tampering: what is durable stays, what is lost is loud, what can be healed heals."""

from __future__ import annotations

import threading
import time

import pytest
import redis

from engine.bus.errors import GroupLost
from engine.bus.transport import Attempt, Delivery, Outgoing, Receiver, Settlement, Status, Transport, Verdict
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.transports.conftest import GROUP, LEASE_MS, TOPIC, Publish

PREFIX = f"hbus:{{{TOPIC}}}"


def open_receiver(transport: Transport, consumer: str = "one") -> Receiver:
    return transport.receiver(TOPIC, GROUP, consumer=consumer, lease_ms=LEASE_MS)


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    return [delivery.body for delivery in deliveries]


def test_leases_retries_and_dead_letters_survive_a_restart(
    own_store: StandaloneStore, transport: Transport, publish: Publish, clock: ManualClock
) -> None:
    # Given one message of each kind
    publish(b"leased", b"retried", b"dead", b"settled", b"waiting")
    receiver = open_receiver(transport)
    leased, retried, dead, settled = receiver.receive(4, 0)
    failure = Attempt(1, clock.now_ms(), 5, "one", "boom")
    receiver.settle(
        [
            Settlement(retried.receipt, Verdict.RETRY, 1_000, failure),
            Settlement(dead.receipt, Verdict.DEAD, dead=b"{}"),
            Settlement(settled.receipt),
        ]
    )

    # When the store restarts
    own_store.stop()
    own_store.start()

    # Then each is where it was, for the same transport and receiver
    lag = transport.admin.lag(TOPIC, GROUP)
    assert (lag.waiting, lag.in_flight, lag.retrying, lag.dead) == (1, 1, 1, 1)
    assert receiver.extend([leased.receipt]) == [True]
    clock.advance(2)
    again = receiver.receive(10, 0)
    assert bodies(again) == [b"retried", b"waiting"]
    assert again[0].history == (failure,)
    receiver.close()


def test_a_receiver_says_that_the_store_is_away_and_works_again_afterwards(
    own_store: StandaloneStore, transport: Transport, publish: Publish
) -> None:
    receiver = open_receiver(transport)
    publish(b"x")
    (delivery,) = receiver.receive(1, 0)
    own_store.stop()

    for act in (
        lambda: receiver.receive(1, 5),
        lambda: receiver.settle([Settlement(delivery.receipt)]),
        lambda: receiver.extend([delivery.receipt]),
        lambda: transport.admin.lag(TOPIC, GROUP),
        transport.ping,
    ):
        with pytest.raises(Unavailable) as caught:
            act()
        assert caught.value.remedy

    own_store.start()
    assert receiver.settle([Settlement(delivery.receipt)]) == [True]
    publish(b"y")
    assert bodies(receiver.receive(1, 5)) == [b"y"]
    receiver.close()


def test_a_wait_ends_loudly_when_the_store_dies(own_store: StandaloneStore, transport: Transport) -> None:
    receiver = open_receiver(transport)
    caught: list[Exception] = []

    def wait() -> None:
        try:
            receiver.receive(1, 60)
        except Unavailable as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    own_store.kill()
    thread.join(20)

    assert not thread.is_alive()
    assert len(caught) == 1
    receiver.close()


def test_a_flushed_store_is_reported_and_healed_at_the_checkpoint(
    transport: Transport, publish: Publish, server: redis.Redis
) -> None:
    # Given a group that stood somewhere
    publish(b"1", b"2", b"3")
    receiver = open_receiver(transport)
    receiver.settle([Settlement(each.receipt) for each in receiver.receive(2, 0)])
    checkpoint = transport.admin.checkpoint(TOPIC, GROUP)

    # When the store is flushed, then a publisher goes on
    server.flushall()
    with pytest.raises(GroupLost):
        receiver.receive(1, 0)
    publish(b"4", b"5")
    with pytest.raises(GroupLost):
        receiver.receive(1, 0)

    # Then making topic and group anew brings everything that was published since
    transport.admin.create_topic(TOPIC)
    assert transport.admin.create_group(TOPIC, GROUP, checkpoint) is True
    assert bodies(receiver.receive(10, 0)) == [b"4", b"5"]
    receiver.close()


def test_a_store_that_began_anew_with_a_clock_behind_the_checkpoint_loses_nothing(
    transport: Transport, publish: Publish, server: redis.Redis, clock: ManualClock
) -> None:
    # Given a checkpoint that lies ahead of the time of the store that takes over
    publish(b"old")
    receiver = open_receiver(transport)
    receiver.settle([Settlement(receiver.receive(1, 0)[0].receipt)])
    checkpoint = transport.admin.checkpoint(TOPIC, GROUP)
    server.flushall()
    clock.step_wall(-3_600)

    # When messages come before and after the group is made anew
    publish(b"before")
    transport.admin.create_group(TOPIC, GROUP, checkpoint)
    publish(b"after")

    # Then none is taken for settled
    assert bodies(receiver.receive(10, 0)) == [b"before", b"after"]
    assert transport.admin.lag(TOPIC, GROUP).waiting == 0
    receiver.close()


@pytest.mark.parametrize("stream", ["high", "normal", "low"])
def test_a_deleted_stream_is_reported_before_anything_is_leased(
    transport: Transport, publish: Publish, server: redis.Redis, stream: str
) -> None:
    publish(b"x")
    receiver = open_receiver(transport)
    server.delete(f"{PREFIX}:{stream}")

    for _ in range(3):
        with pytest.raises(GroupLost):
            receiver.receive(10, 0)
    with pytest.raises(GroupLost):
        transport.admin.lag(TOPIC, GROUP)

    # And the part that is left is unharmed once the group is whole again
    assert transport.admin.create_group(TOPIC, GROUP) is True
    expected = [] if stream == "normal" else [(b"x", 1)]
    assert [(each.body, each.attempt) for each in receiver.receive(10, 0)] == expected
    receiver.close()


def test_nothing_is_owned_in_a_stream_that_has_lost_its_group(
    transport: Transport, publish: Publish, server: redis.Redis
) -> None:
    publish(b"x")
    receiver = open_receiver(transport)
    (delivery,) = receiver.receive(1, 0)
    server.xgroup_destroy(f"{PREFIX}:normal", GROUP)

    assert receiver.extend([delivery.receipt]) == [False]
    assert receiver.settle([Settlement(delivery.receipt, Verdict.RETRY)]) == [False]
    receiver.close()


def test_a_deleted_state_key_is_a_lost_group(transport: Transport, publish: Publish, server: redis.Redis) -> None:
    publish(b"x")
    receiver = open_receiver(transport)
    receiver.receive(1, 0)
    server.delete(f"{PREFIX}:group:{GROUP}:state")

    with pytest.raises(GroupLost):
        receiver.receive(1, 0)

    # What the old group held is not stuck in it
    assert transport.admin.create_group(TOPIC, GROUP) is True
    assert bodies(receiver.receive(1, 0)) == [b"x"]
    receiver.close()


def test_a_message_comes_again_though_its_consumer_was_deleted_from_the_group(
    transport: Transport, publish: Publish, server: redis.Redis, clock: ManualClock
) -> None:
    # Given a pending message that redis itself has made unclaimable
    publish(b"x")
    open_receiver(transport, "gone").receive(1, 0)
    server.xgroup_delconsumer(f"{PREFIX}:normal", GROUP, "gone")

    clock.advance(LEASE_MS / 1000 + 1)

    receiver = open_receiver(transport)
    (again,) = receiver.receive(1, 0)
    assert (again.body, again.attempt) == (b"x", 2)
    assert receiver.settle([Settlement(again.receipt)]) == [True]
    receiver.close()


def test_a_message_that_vanished_from_the_stream_is_counted_and_forgotten(
    transport: Transport, publish: Publish, server: redis.Redis, clock: ManualClock
) -> None:
    publish(b"x", b"y")
    receiver = open_receiver(transport)
    first, _ = receiver.receive(2, 0)
    server.xdel(f"{PREFIX}:normal", first.position)

    clock.advance(LEASE_MS / 1000 + 1)

    assert bodies(receiver.receive(10, 0)) == [b"y"]
    assert transport.admin.counts(TOPIC, GROUP)["vanished"] == 1
    assert transport.admin.lag(TOPIC, GROUP).unsettled == 1
    receiver.close()


def test_a_dead_letter_that_cannot_be_kept_settles_nothing(
    transport: Transport, publish: Publish, server: redis.Redis
) -> None:
    # Given that somebody put something else where the dead letters should be
    publish(b"x", b"y")
    receiver = open_receiver(transport)
    poison, good = receiver.receive(2, 0)
    server.set(f"{PREFIX}:group:{GROUP}:dead", "not a stream")

    with pytest.raises(Unavailable, match="WRONGTYPE"):
        receiver.settle([Settlement(good.receipt), Settlement(poison.receipt, Verdict.DEAD, dead=b"{}")])

    # Then both are as they were, and the same batch works later
    assert transport.admin.counts(TOPIC, GROUP) == {}
    server.delete(f"{PREFIX}:group:{GROUP}:dead")
    batch = [Settlement(good.receipt), Settlement(poison.receipt, Verdict.DEAD, dead=b"{}")]
    assert receiver.settle(batch) == [True, True]
    assert transport.admin.lag(TOPIC, GROUP).dead == 1
    receiver.close()


def test_a_full_store_still_drains(
    transport: Transport, publish: Publish, server: redis.Redis, clock: ManualClock
) -> None:
    # Given a backlog in a store that takes nothing more
    publish(*[b"%d" % index for index in range(6)])
    server.config_set("maxmemory", 1)
    assert transport.publish(TOPIC, [Outgoing("no", b"no")])[0].status is Status.FAILED

    # When a consumer reads and settles in every way
    receiver = open_receiver(transport)
    acked, retried, dead, released, held = receiver.receive(5, 0)
    assert receiver.extend([held.receipt]) == [True]
    failure = Attempt(1, clock.now_ms(), 5, "one", "boom")
    assert receiver.settle([Settlement(acked.receipt)]) == [True]
    assert receiver.settle([Settlement(retried.receipt, Verdict.RETRY, 0, failure)]) == [True]
    assert receiver.settle([Settlement(dead.receipt, Verdict.DEAD, dead=b"{}")]) == [True]
    assert receiver.settle([Settlement(released.receipt, Verdict.RELEASE)]) == [True]

    # Then all of it happened
    assert bodies(receiver.receive(10, 0)) == [b"3", b"1", b"5"]
    assert len(transport.admin.dead(TOPIC, GROUP)) == 1
    receiver.close()


def test_a_silent_wait_notices_a_lost_group(transport: Transport, server: redis.Redis) -> None:
    receiver = open_receiver(transport)
    caught: list[Exception] = []

    def wait() -> None:
        try:
            receiver.receive(1, 60)
        except GroupLost as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    started = time.monotonic()
    server.flushall()
    thread.join(20)

    assert len(caught) == 1
    assert time.monotonic() - started < 15
    receiver.close()
