"""What the console itself keeps in the store, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from pytest_django import Settings

from engine.bus.facts import Fact, batches
from engine.core.clock import SystemClock
from hbus_console.cluster import health, probes
from hbus_console.evidence.fact_stream import FactReader, FactStream
from hbus_console.nodes.beat import NodeBeat
from hbus_console.nodes.stamps import read_nodes
from hbus_console.outbox.services import wake_key, wake_relay
from hbus_console.wiring import bus, store
from tests.store_servers import StoreCluster


@pytest.fixture
def client(store_cluster: StoreCluster, settings: Settings, prefix: str) -> Iterator[redis.Redis]:
    """The process's client, as every part of the console gets it."""
    caches = (probes.client, health._client)
    store.close()
    settings.REDIS_URL, settings.HBUS_PREFIX = store_cluster.url, prefix
    for cached in caches:
        cached.cache_clear()
    yield store.client()
    store.close()
    for cached in caches:
        cached.cache_clear()


def test_facts(client: redis.Redis, prefix: str) -> None:
    stream, reader = FactStream(client, prefix), FactReader(client, prefix)
    assert reader.end() == ("0-0", 0)
    for number in range(3):
        stream.write(batches([Fact("published", number, topic=f"booking.{number}")]))

    entries = reader.read("0", 10)

    assert [(entry.last, entry.count, entry.broken) for entry in entries] == [(1, 1, ""), (2, 1, ""), (3, 1, "")]
    assert reader.end() == (entries[-1].id, 3)
    reader.forget(entries[-1].id, 3)
    assert [entry.last for entry in reader.read("0", 10)] == [3]


def test_stamps_of_nodes(client: redis.Redis, prefix: str) -> None:
    beat = NodeBeat(client, prefix, name="one", role="keeper")
    beat.beat()
    beat.forget_gone()

    (node,) = read_nodes(client, prefix, SystemClock())
    assert node.name == "one"
    assert node.clock is not None
    beat.stop()
    assert read_nodes(client, prefix, SystemClock()) == []


def test_the_outbox_is_woken(client: redis.Redis) -> None:
    wake_relay()
    wake_relay()

    assert client.llen(wake_key()) == 1
    assert client.blpop([wake_key()], timeout=1)


def test_probes_look_at_every_primary(client: redis.Redis, store_cluster: StoreCluster) -> None:
    state = probes.store_state()
    assert (state.error, state.troubles) == ("", [])
    assert state.address == store_cluster.url.partition("@")[2]
    assert state.keys == client_keys(client)
    assert probes.obstacle() == ""
    assert health._store() == "ok"


def test_leases_and_the_bus_are_wired_to_it(client: redis.Redis) -> None:
    lease = store.lease("duty")
    assert lease.acquire() == 1
    lease.release()
    assert bus.transport("redis_stream").ping() < 5
    assert bus.delays().count() == 0


def client_keys(client: redis.Redis) -> int:
    return sum(each.dbsize() for each in client.each())  # type: ignore[attr-defined]
