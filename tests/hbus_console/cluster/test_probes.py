from __future__ import annotations

import pytest
import redis
from django.db import connection

from hbus_console.cluster import probes
from hbus_console.cluster.probes import StoreState
from hbus_console.supervisor.standalone import StandaloneStore
from tests.slow_store import slow_store

ENGINE = "PostgreSQL" if connection.vendor == "postgresql" else "SQLite"


@pytest.fixture
def store(own_store: StandaloneStore, monkeypatch: pytest.MonkeyPatch) -> redis.Redis:
    client = redis.Redis.from_url(own_store.url)
    monkeypatch.setattr(probes, "client", lambda: client)
    return client


def test_a_store_of_ours_is_well(store: redis.Redis) -> None:
    store.set("a", 1)
    state = probes.store_state()
    assert (state.server, state.durable, state.policy, state.keys) == ("Valkey", True, "noeviction", 1)
    assert state.version[0].isdigit()
    assert state.memory > 1_000_000
    store.config_set("appendfsync", "everysec")
    assert probes.store_state().sync == "synced every second"
    assert (state.tone, state.troubles) == ("ok", [])


def test_a_store_that_may_lose_or_evict_says_so(store: redis.Redis) -> None:
    store.config_set("appendonly", "no")
    store.config_set("maxmemory", "3mb")
    store.config_set("maxmemory-policy", "allkeys-lru")
    state = probes.store_state()
    assert state.tone == "warn"
    assert [text.split(":")[0].split(" (")[0] for text in state.troubles][:2] == [
        "The store keeps nothing on disk",
        "The store may evict messages when full",
    ]
    assert "% full" in state.troubles[2]


def test_a_store_that_is_away_is_an_answer_not_an_error(own_store: StandaloneStore, store: redis.Redis) -> None:
    own_store.kill()
    state = probes.store_state()
    assert state.error
    assert state.tone == "bad"
    assert state.troubles == [f"The store does not answer: {state.error}."]


def test_a_store_that_takes_no_more_connections_is_told_apart_from_silence(
    own_store: StandaloneStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "_away", {})
    with redis.Redis.from_url(own_store.url) as holding, redis.Redis.from_url(own_store.url) as client:
        holding.config_set("maxclients", 1)
        monkeypatch.setattr(probes, "client", lambda: client)
        why = "takes no more connections: as many as its maxclients allows are open"
        assert probes.store_state().troubles == [f"The store {why}."]
        assert probes.obstacle() == f"The store {why}."


def test_a_slow_store_is_called_slow(own_store: StandaloneStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_store(own_store.url, 0.3) as url, redis.Redis.from_url(url) as client:
        monkeypatch.setattr(probes, "client", lambda: client)
        state = probes.store_state()
    assert state.slow
    assert state.answer_us >= 300_000
    assert [text for text in state.troubles if text.startswith("The store is slow: it took 3")]
    assert not StoreState("x", answer_us=900).slow


def test_the_page_client_gives_up_at_once() -> None:
    assert probes.client().get_retry()._retries == 0  # type: ignore[union-attr]
    assert probes.client().connection_pool.connection_kwargs["socket_timeout"] <= 1


def test_the_address_never_shows_the_password() -> None:
    state = probes.store_state()
    assert state.address.startswith("127.0.0.1:")
    assert "@" not in state.address


@pytest.mark.django_db(databases=["default", "ledger"])
def test_databases_tell_engine_and_size() -> None:
    states = probes.database_states()
    assert {state.engine for state in states} == {ENGINE}
    assert all(state.version and not state.error for state in states)


def test_write_errors_come_first() -> None:
    state = StoreState("x", durable=True, write_error="disk full")
    assert state.tone == "bad"
    assert "append-only file" in state.troubles[0]


def test_without_amounts_it_still_says_that_it_is_nearly_full() -> None:
    full = StoreState("x", memory=90, limit=100, nearly_full=True, policy="noeviction", durable=True, operations=7)
    assert full.troubles == ["The store is 90 % full; publishes will be refused at 100 %."]
    told = full.without_amounts()
    assert (told.memory, told.operations, told.keys) == (None, None, None)
    assert told.troubles == ["The store is nearly full; publishes will be refused at 100 %."]
