"""A consumer that is killed before it acknowledges loses nothing: another gets its messages when the lease is over."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.bus.config import BusConfig
from engine.bus.transport import Outgoing, Settlement, Transport
from engine.bus.transports.redis_stream import open_transport

pytestmark = pytest.mark.chaos

TOPIC = "booking.created"
GROUP = "billing"
LEASE_MS = 400
#: How much later than its lease a message may come, on a machine that is busy with other tests.
MARGIN_S = 3.0
NUMBER = 20
ROOT = Path(__file__).parents[2]


@pytest.fixture
def transport(redis_url: str, prefix: str) -> Iterator[Transport]:
    """By the store's own clock, as the processes have it; with a backlog."""
    made = open_transport(BusConfig(url=redis_url, prefix=prefix))
    made.admin.create_topic(TOPIC)
    made.admin.create_group(TOPIC, GROUP)
    made.publish(TOPIC, [Outgoing(str(index), str(index).encode()) for index in range(NUMBER)])
    yield made
    made.admin.delete_topic(TOPIC)
    made.close()


@contextmanager
def doomed_consumer(redis_url: str, prefix: str, *, heartbeat: bool) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the whole backlog by the time the block begins."""
    command = [sys.executable, "-m", "tests.chaos.doomed_consumer", prefix, TOPIC, GROUP, "doomed"]
    command += [str(LEASE_MS), str(NUMBER), "yes" if heartbeat else "no"]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "REDIS_URL": redis_url}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        taken = [process.stdout.readline().strip() for _ in range(NUMBER)]
        assert taken == [str(index) for index in range(NUMBER)]
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_what_a_killed_consumer_held_goes_to_another_within_its_lease(
    transport: Transport, redis_url: str, prefix: str
) -> None:
    receiver = transport.receiver(TOPIC, GROUP, consumer="heir", lease_ms=60_000)
    with doomed_consumer(redis_url, prefix, heartbeat=True) as process:
        # Given a consumer that keeps its messages alive for longer than their lease
        assert receiver.receive(NUMBER, 3 * LEASE_MS / 1000) == []

        # When it is killed before it acknowledged anything
        process.kill()
        killed = time.monotonic()
        taken = []
        while len(taken) < NUMBER and time.monotonic() - killed < LEASE_MS / 1000 + MARGIN_S:
            taken += receiver.receive(NUMBER - len(taken), 1)

    # Then another has all of it in time, once, and can see who failed
    assert sorted(int(delivery.body) for delivery in taken) == list(range(NUMBER))
    assert {delivery.attempt for delivery in taken} == {2}
    assert {past.consumer for delivery in taken for past in delivery.history} == {"doomed"}
    assert {past.error for delivery in taken for past in delivery.history} == {"lease ran out"}
    assert all(receiver.settle([Settlement(delivery.receipt) for delivery in taken]))
    assert transport.admin.lag(TOPIC, GROUP).unsettled == 0
    receiver.close()


def test_a_consumer_without_a_heartbeat_loses_its_messages_while_it_lives(
    transport: Transport, redis_url: str, prefix: str
) -> None:
    receiver = transport.receiver(TOPIC, GROUP, consumer="heir", lease_ms=60_000)
    with doomed_consumer(redis_url, prefix, heartbeat=False) as process:
        taken = receiver.receive(NUMBER, LEASE_MS / 1000 + MARGIN_S)
        assert process.poll() is None

    assert [delivery.attempt for delivery in taken] == [2] * NUMBER
    receiver.close()
