"""A backlog that the store itself cannot count."""

from __future__ import annotations

import pytest

from engine.bus.transport import Settlement
from engine.bus.transports.redis_stream import inspection
from hbus_console.publishing.producer import shared_producer
from hbus_console.wiring import bus, store


def hide_backlog(prefix: str, topic: str, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More wait for ``group`` in Redis than are counted, behind a hole: from there on the server knows no number."""
    for number in range(6):
        shared_producer().publish(topic, {"n": number})
    receiver = bus.transport("redis_stream").receiver(topic, group, consumer="c1", lease_ms=30_000)
    (first,) = receiver.receive(1, 1)
    assert receiver.settle([Settlement(first.receipt)]) == [True]
    receiver.close()
    redis = store.client()
    streams = [key for key in redis.scan_iter(f"{prefix}*") if redis.type(key) == b"stream"]
    stream = max(streams, key=redis.xlen)
    entries = redis.xrevrange(stream, count=2)
    redis.xdel(stream, entries[1][0])
    monkeypatch.setattr(inspection, "COUNT_LIMIT", 2)
    assert bus.admin("redis_stream").lag(topic, group).waiting is None
