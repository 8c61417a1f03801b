"""docs/wire-format.md, followed by a client that has nothing of hbus in it: redis-py alone."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import redis

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer
from engine.bus.dead import DeadRecord
from engine.bus.message import KNOWN_ATTRIBUTES
from engine.bus.options import PublishOptions
from engine.bus.partitions import partition_of
from engine.bus.policy import SubscriptionPolicy
from engine.bus.producer import Producer
from engine.bus.registry import open_transport
from engine.bus.transport import Priority
from tests.engine.bus.kit import WatchedFacts

DOCUMENT = (Path(__file__).parents[3] / "docs" / "wire-format.md").read_text(encoding="utf-8")
TOPIC = "booking.created"
GROUP = "availability"


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """What any program has."""
    made = redis.Redis.from_url(redis_url, decode_responses=True)
    yield made
    made.close()


@pytest.fixture
def transport(redis_url: str, prefix: str) -> Iterator[Any]:
    made = open_transport(BusConfig(url=redis_url, prefix=prefix))
    made.admin.create_topic(TOPIC)
    made.admin.create_group(TOPIC, GROUP)
    yield made
    made.close()


def envelope(**more: Any) -> str:
    return json.dumps({"specversion": "1.0", "id": "1", "source": "/legacy/pms", "type": TOPIC, **more})


def consume(transport: Any, count: int) -> tuple[list[Any], WatchedFacts]:
    """What our consumer handles until it has settled ``count``."""
    seen: list[Any] = []
    facts = WatchedFacts()
    consumer = Consumer(
        transport, SubscriptionPolicy(TOPIC, GROUP), lambda message, _: seen.append(message), name="c", facts=facts
    )
    consumer.start()
    done = threading.Event()
    for _ in range(1_000):
        if consumer.status().handled >= count or done.wait(0.01):
            break
    consumer.stop(5.0)
    return seen, facts


def test_a_plain_client_publishes_and_our_consumer_handles_it(client: redis.Redis, transport: Any, prefix: str) -> None:
    stream = f"{prefix}:{{{TOPIC}}}:normal"
    client.xadd(stream, {"event": envelope(data={"nights": 3}, partitionkey="H-1204", tenant="lisbon", count=7)})
    client.xadd(stream, {"event": envelope(id="2", data_base64=base64.b64encode(b"\x00\x01").decode())})

    (first, second), _ = consume(transport, 2)

    assert first.json() == {"nights": 3}
    assert (first.id, first.source, first.partitionkey) == ("1", "/legacy/pms", "H-1204")
    assert first.extensions == {"tenant": "lisbon", "count": "7"}
    assert second.payload() == b"\x00\x01"


def test_expiry_and_target_are_honoured(client: redis.Redis, transport: Any, prefix: str) -> None:
    stream = f"{prefix}:{{{TOPIC}}}:normal"
    client.xadd(stream, {"event": envelope(id="old", expirytime="2020-01-01T00:00:00Z")})
    client.xadd(stream, {"event": envelope(id="other", hbustarget="billing")})
    client.xadd(stream, {"event": envelope(id="mine", hbustarget=GROUP)})

    seen, facts = consume(transport, 3)

    assert [message.id for message in seen] == ["mine"]
    assert [fact.message_id for fact in facts.of("expired")] == ["old"]


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ("no json", "JSON"),
        ('{"specversion": "1.0", "source": "/s", "type": "t"}', "id"),
        (envelope(tenant={"deep": 1}), "tenant"),
        (envelope(expirytime="soon"), "expirytime"),
        (envelope(sequence=7), "sequence"),
    ],
)
def test_what_cannot_be_read_is_dead_at_once_and_says_why(
    client: redis.Redis, transport: Any, prefix: str, event: str, field: str
) -> None:
    client.xadd(f"{prefix}:{{{TOPIC}}}:normal", {"event": event})

    seen, _ = consume(transport, 1)

    assert seen == []
    (dead,) = transport.admin.dead(TOPIC, GROUP)
    record = json.loads(dead.record)
    assert record["cause"].startswith("MalformedEnvelope")
    assert field in record["error"]
    assert (record["attempts"], dead.body.decode()) == (1, event)
    assert set(record) <= set(DeadRecord.__struct_encode_fields__)


def test_our_producer_publishes_and_a_plain_client_reads_it(client: redis.Redis, transport: Any, prefix: str) -> None:
    # Given a group of the client's own, and messages of all priorities
    streams = {f"{prefix}:{{{TOPIC}}}:{name}": ">" for name in ("high", "normal", "low")}
    for stream in streams:
        client.xgroup_create(stream, "my-tool", "$", mkstream=True)
    producer = Producer(
        lambda _: transport, StaticCatalog(TopicPolicy(TOPIC, "team")), source="/test", facts=WatchedFacts()
    )
    for priority in (Priority.NORMAL, Priority.HIGH, Priority.LOW):
        options = PublishOptions(key="H-1", priority=priority, headers={"tenant": "lisbon"}, correlation_id="req-1")
        producer.publish(TOPIC, {"priority": priority.value}, options)

    # When it reads and acknowledges as the page says
    found: dict[str, Any] = {}
    for stream in streams:
        answer: Any = client.xreadgroup("my-tool", "worker-1", {stream: ">"}, count=100)
        entries = next(iter(answer.values())) if isinstance(answer, dict) else answer[0][1]
        for entry_id, fields in entries[0] if isinstance(entries[0][0], (list, tuple)) else entries:
            found[stream.rpartition(":")[2]] = json.loads(fields["event"])
            assert client.xack(stream, "my-tool", entry_id) == 1

    # Then it has the envelopes of the page
    assert {name: event["data"]["priority"] for name, event in found.items()} == {
        "high": "high",
        "normal": "normal",
        "low": "low",
    }
    event = found["high"]
    assert (event["specversion"], event["hbuspriority"], event["partitionkey"]) == ("1.0", "high", "H-1")
    assert (event["correlationid"], event["tenant"], event["datacontenttype"]) == (
        "req-1",
        "lisbon",
        "application/json",
    )
    # And our subscription still has all of them
    assert transport.admin.lag(TOPIC, GROUP).unsettled == 3


def test_keyed_messages_lie_in_the_partition_of_the_rule(client: redis.Redis, transport: Any, prefix: str) -> None:
    transport.admin.create_topic("ordered")
    policy = TopicPolicy("ordered", "team", ordering="key", priorities=False, partitions=8)
    producer = Producer(lambda _: transport, StaticCatalog(policy), source="/test", facts=WatchedFacts())
    keys = [f"H-{number}" for number in range(50)]
    for key in keys:
        producer.publish("ordered", {}, PublishOptions(key=key))

    for number in range(8):
        stream = f"{prefix}:{{ordered}}:p{number}:normal" if number else f"{prefix}:{{ordered}}:normal"
        there = [json.loads(fields["event"])["partitionkey"] for _, fields in client.xrange(stream)]
        assert there == [key for key in keys if crc32(key.encode()) % 8 == number]


def test_the_page_names_every_member_and_its_example_is_true() -> None:
    rows = "".join(line for line in DOCUMENT.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([a-z0-9_]+)`", rows)) >= KNOWN_ATTRIBUTES
    example = re.search(r'crc32\("H-1204"\) = 0x([0-9a-f]{8}).*?number (\d)', DOCUMENT, re.DOTALL)
    assert example
    digits, part = example.groups()
    assert crc32(b"H-1204") == int(digits, 16)
    assert partition_of("H-1204", "any", 8) == int(part)


def test_a_sequence_is_text_as_the_page_says(client: redis.Redis, transport: Any, prefix: str) -> None:
    assert '"sequence": 7`, makes an envelope that cannot be read' in DOCUMENT
    client.xadd(f"{prefix}:{{{TOPIC}}}:normal", {"event": envelope(sequence="7")})
    (seen,), _ = consume(transport, 1)
    assert seen.sequence == "7"
