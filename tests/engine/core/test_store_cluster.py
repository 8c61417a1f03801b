"""What the engine keeps in the store, on a real cluster: nothing crosses hash tags, and every key is found again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from redis.exceptions import ClusterCrossSlotError

from engine.bus.breaker_board import Pauses, RedisBreakers
from engine.bus.config import BusConfig
from engine.bus.delays import Delayed, RedisDelays
from engine.bus.transport import Outgoing, Status
from engine.bus.transports.redis_stream import open_transport
from engine.core.clock import ManualClock
from engine.core.leases import Lease
from engine.core.scripts import Script
from engine.core.store import StoreAddress, each_primary, open_client, slot_of
from engine.core.store.failures import Refused
from engine.core.store.link import Link
from tests.store_servers import StoreCluster, cluster_says

TOPICS = [f"booking.{number}" for number in range(12)]


@pytest.fixture
def client(store_cluster: StoreCluster) -> Iterator[redis.Redis]:
    made = open_client(store_cluster.url)
    yield made
    made.close()


@pytest.fixture
def link(store_cluster: StoreCluster) -> Iterator[Link]:
    made = Link.open(store_cluster.url)
    yield made
    made.close()


def test_leases(client: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    for name in TOPICS:
        lease = Lease(client, prefix, name, owner="one", ttl_s=10, clock=clock)
        assert lease.acquire() == 1
        assert lease.renew()
        assert lease.holder() == "one"
        assert Lease(client, prefix, name, owner="two", ttl_s=10, clock=clock).acquire() == 0
        lease.release()


def test_breakers(client: redis.Redis, prefix: str) -> None:
    board = RedisBreakers(client, prefix)
    for topic in TOPICS:
        assert board.trip(topic, "billing", "c", "why", Pauses(60_000, 60_000)).changed

    # One question about all of them asks several nodes.
    states = board.states([(topic, "billing") for topic in (*TOPICS, "another")])

    assert states == {(topic, "billing"): "open" for topic in TOPICS}


def test_delays(client: redis.Redis, prefix: str) -> None:
    clock = ManualClock()
    delays = RedisDelays(client, prefix, clock=clock, replicas=1)
    for topic in TOPICS:
        due_ms = clock.now_ms() + 1_000
        (outcome,) = delays.schedule(topic, [Delayed(topic, "/s", b"x", due_ms, "digest", topic, 60_000)])
        assert outcome.status is Status.OK
        (again,) = delays.schedule(topic, [Delayed("other", "/s", b"x", due_ms, "digest", topic, 60_000)])
        assert (again.status, again.message_id) == (Status.DUPLICATE, topic)
    assert delays.count() == len(TOPICS)
    clock.advance(2)
    due = delays.due()
    assert sorted(item.topic for item in due) == sorted(TOPICS)
    delays.postpone([due[0]], 5)
    delays.complete(due[1:])
    assert delays.count() == 1
    assert delays.cancel(due[0].topic, "/s", due[0].topic).value == "cancelled"


def test_topics_spread_over_the_nodes_and_a_topics_keys_lie_together(
    store_cluster: StoreCluster, client: redis.Redis, prefix: str
) -> None:
    transport = open_transport(BusConfig(url=store_cluster.url, prefix=prefix))
    for topic in TOPICS:
        transport.admin.create_topic(topic)
        transport.set_partitions(topic, 4)
        transport.admin.create_group(topic, "billing")
        batch = [
            Outgoing(str(each), b"x", idempotency_key=str(each), idempotency_window_ms=60_000) for each in range(4)
        ]
        assert {outcome.status for outcome in transport.publish(topic, batch)} == {Status.OK}

    found = [{key.decode() for key in primary.keys(f"{prefix}:*")} for primary in each_primary(client)]
    assert all(found)
    for topic in TOPICS:
        holding = [keys for keys in found if any(f"{{{topic}}}" in key for key in keys)]
        assert len(holding) == 1
        assert len({slot_of(key) for key in holding[0] if f"{{{topic}}}" in key}) == 1
    transport.close()


def test_what_crosses_hash_tags_is_refused_and_never_done_by_halves(
    client: redis.Redis, link: Link, prefix: str
) -> None:
    keys = [f"{prefix}:{{a}}", f"{prefix}:{{b}}"]
    script = Script("cross", "redis.call('SET', KEYS[1], 1) return redis.call('SET', KEYS[2], 1)")
    with pytest.raises(Refused, match="CROSSSLOT"):
        link.run(script, keys, ())
    pipeline = client.pipeline()
    for key in keys:
        pipeline.set(key, 1)
    with pytest.raises(ClusterCrossSlotError):
        pipeline.execute()
    assert [client.get(key) for key in keys] == [None, None]
    # Without a transaction each command is one of its own.
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.set(key, 1)
    assert pipeline.execute() == [True, True]


def test_a_slot_on_its_way_to_another_node_is_followed(
    store_cluster: StoreCluster, client: redis.Redis, link: Link, prefix: str
) -> None:
    # Given two clients that know where a key is
    key = f"{prefix}:{{moving}}"
    slot = slot_of(key)
    assert client.set(key, 1)
    assert link.command("GET", key) == b"1"
    source = store_cluster.primary_of(key)
    target = next(each for each in store_cluster.servers if each.is_primary and each is not source)
    names = {each.port: cluster_says(each, "MYID").decode() for each in (source, target)}

    # When its slot is on its way to another node, and the key is there already
    target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source.port])
    source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target.port])
    password = store_cluster.password
    source.client.execute_command("MIGRATE", "127.0.0.1", target.port, key, 0, 5_000, "AUTH", password)

    # Then both find it there
    assert client.get(key) == b"1"
    assert link.command("GET", key) == b"1"
    pipeline = client.pipeline(transaction=False)
    pipeline.incr(key)
    assert pipeline.execute() == [2]

    # And also when the slot has moved, and back
    for at, to in ((source, target), (target, source)):
        if at is target:
            at.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", names[to.port])
            to.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", names[at.port])
            at.client.execute_command("MIGRATE", "127.0.0.1", to.port, key, 0, 5_000, "AUTH", password)
        for each in (to, at):
            each.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", names[to.port])
        assert client.get(key) == b"2"
        assert link.command("GET", key) == b"2"
    assert store_cluster.primary_of(key) is source


def test_a_client_of_one_node_alone_finds_them_all(store_cluster: StoreCluster, prefix: str) -> None:
    address = StoreAddress.parse(store_cluster.url)
    (host, port), password = address.places[0], address.options["password"]
    client = open_client(f"cluster://:{password}@{host}:{port}")

    assert len(each_primary(client)) == 3
    assert all(client.set(f"{prefix}:{topic}", 1) for topic in TOPICS)
    assert client.register_script("return redis.call('GET', KEYS[1])")(keys=[f"{prefix}:{TOPICS[0]}"]) == b"1"
    client.close()
