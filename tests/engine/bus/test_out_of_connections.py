"""A store that is well and to which no further connection is to be had is no store that is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from engine.bus.config import BusConfig
from engine.bus.consuming.scope import SHORT_SAID_S
from engine.bus.errors import PublishFailed
from engine.core.clock import ManualClock
from engine.core.duties import DutyRunner
from engine.core.errors import OutOfConnections
from engine.core.leases import Lease
from engine.core.store import open_client
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.kit import Bus, Recorder, make_bus, running, until


@pytest.fixture
def server(own_store: StandaloneStore) -> Iterator[redis.Redis]:
    """The store, as another client sees it."""
    client = redis.Redis.from_url(own_store.url)
    client.ping()
    yield client
    client.close()


@pytest.fixture
def live(own_store: StandaloneStore, clock: ManualClock) -> Iterator[Bus]:
    made = make_bus(BusConfig(url=own_store.url, prefix="short"), clock)
    yield made
    made.transport.close()


def _full(server: redis.Redis) -> None:
    """Nobody may open another connection, and of the bus nobody has one."""
    server.client_kill_filter(_type="normal", skipme=True)
    server.config_set("maxclients", 1)


def test_a_consumer_that_finds_no_connection_says_that_and_goes_on_once_there_is_one(
    live: Bus, server: redis.Redis, clock: ManualClock
) -> None:
    live.publish({"n": 1})
    _full(server)
    handler = Recorder()
    consumer = live.consumer(handler)
    with running(consumer):
        (said,) = live.facts.wait_for("out_of_connections")
        assert "takes no more connections: as many as its maxclients allows" in said.error
        assert consumer.status().state == "out of connections"
        server.config_set("maxclients", 1_000)
        until(lambda: bool(live.facts.of("settled")), between=lambda: clock.advance(1))
        assert consumer.status().state == "running"
        assert consumer.status().recovered_ms
    assert not live.facts.of("store_lost")
    assert not live.facts.of("store_back")


def test_a_publish_that_finds_no_connection_fails_for_certain_and_says_why(live: Bus, server: redis.Redis) -> None:
    _full(server)
    with pytest.raises(PublishFailed, match="as many as its maxclients allows are open"):
        live.publish({"n": 1})
    server.config_set("maxclients", 1_000)
    live.publish({"n": 1})
    assert live.unsettled() == 1


def test_it_says_so_once_a_minute_however_often_it_comes_and_goes(bus: Bus, clock: ManualClock) -> None:
    health = bus.consumer(Recorder())._scope.health

    def peak() -> None:
        health.away(OutOfConnections("all 3 connections are in use"))
        assert health.short
        health.answered()
        assert not health.short

    peak()
    peak()
    assert len(bus.facts.of("out_of_connections")) == 1
    clock.advance(SHORT_SAID_S)
    peak()
    assert len(bus.facts.of("out_of_connections")) == 2


def test_a_duty_that_cannot_ask_for_its_lease_says_why(own_store: StandaloneStore, server: redis.Redis) -> None:
    class Idle:
        name, interval_s = "idle", 1.0

        def tick(self) -> None:
            return

    client = open_client(own_store.url)
    server.config_set("maxclients", 1)
    runner = DutyRunner([Idle()], leases=lambda name: Lease(client, "short", name, owner="me", ttl_s=5))
    runner.start()
    try:
        until(lambda: runner.status()[0].state == "out of connections")
        assert "its maxclients allows" in runner.status()[0].last_error
    finally:
        runner.stop(5.0)
        client.close()
