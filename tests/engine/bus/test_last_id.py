"""An entry at the last id that a stream can have holds up what is written after it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from engine.bus.config import BusConfig
from engine.bus.transport import Outgoing, Settlement, Status
from engine.bus.transports.redis_stream import open_transport
from engine.bus.transports.redis_stream.transport import RedisStreamTransport

TOPIC, GROUP = "booking.created", "billing"
LAST = "18446744073709551615-18446744073709551615"


@pytest.fixture
def transport(redis_url: str, prefix: str) -> Iterator[RedisStreamTransport]:
    made: RedisStreamTransport = open_transport(BusConfig(url=redis_url, prefix=prefix))
    made.admin.create_topic(TOPIC)
    made.admin.create_group(TOPIC, GROUP)
    yield made
    made.admin.delete_topic(TOPIC)
    made.close()


def test_its_group_is_still_told_settled_and_trimmed(
    transport: RedisStreamTransport, redis_url: str, prefix: str
) -> None:
    envelope = b'{"specversion":"1.0","id":"last","source":"/plain","type":"t"}'
    with redis.Redis.from_url(redis_url) as client:
        (stream,) = [key for key in client.scan_iter(f"{prefix}:*") if key.endswith(b":normal")]
        client.xadd(stream, {"event": envelope}, id=LAST)
    receiver = transport.receiver(TOPIC, GROUP, consumer="c1", lease_ms=30_000)
    (delivery,) = receiver.receive(10, 1)
    lag = transport.admin.lag(TOPIC, GROUP)
    assert (lag.waiting, lag.in_flight) == (0, 1)
    assert receiver.settle([Settlement(delivery.receipt)])
    assert transport.admin.lag(TOPIC, GROUP).unsettled == 0
    assert transport.admin.checkpoint(TOPIC, GROUP)
    assert transport.admin.trim(TOPIC, older_than_ms=0, keep_at_most=None).removed == 0
    (outcome,) = transport.publish(TOPIC, [Outgoing("next", envelope.replace(b"last", b"next"))])
    assert outcome.status is Status.FAILED
    receiver.close()
