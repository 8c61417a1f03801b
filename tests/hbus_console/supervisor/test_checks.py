from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from engine.core.clock import ManualClock
from engine.core.errors import ConfigurationError, Unavailable
from hbus_console import remembered
from hbus_console.supervisor import checks, installation, store
from hbus_console.supervisor.standalone import StandaloneStore
from tests.loading import KEYS, start_slowly
from tests.slow_store import slow_store
from tests.store_servers import SentinelTrio, StoreCluster, until

PATIENCE_S = 90.0


def test_the_embedded_store_passes(own_store: StandaloneStore) -> None:
    assert checks.check_store(own_store.url) == []


def test_an_evicting_store_is_refused_by_name_and_without_its_password(own_store: StandaloneStore) -> None:
    redis.Redis.from_url(own_store.url).config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(ConfigurationError, match="may evict messages: its maxmemory-policy is allkeys-lru") as refusal:
        checks.check_store(own_store.url)
    assert refusal.value.field == "REDIS_URL"
    assert "noeviction" in refusal.value.remedy
    assert own_store.password not in str(refusal.value)


def test_an_evicting_store_is_refused_where_config_is_closed(own_store: StandaloneStore) -> None:
    client = redis.Redis.from_url(own_store.url)
    client.config_set("maxmemory-policy", "volatile-ttl")
    client.acl_setuser("guest", enabled=True, passwords=["+word"], keys=["*"], commands=["+@all", "-config"])
    with pytest.raises(ConfigurationError, match="volatile-ttl"):
        checks.check_store(f"redis://guest:word@127.0.0.1:{own_store.port}/0")


def test_a_store_that_does_not_tell_is_taken_with_a_warning(own_store: StandaloneStore) -> None:
    client = redis.Redis.from_url(own_store.url)
    client.acl_setuser("guest", enabled=True, passwords=["+word"], keys=["*"], commands=["+@all", "-info"])
    (warning,) = checks.check_store(f"redis://guest:word@127.0.0.1:{own_store.port}/0")
    assert "noeviction" in warning


def test_an_unreachable_store_is_named(own_store: StandaloneStore) -> None:
    own_store.kill()
    with pytest.raises(Unavailable, match=f"127.0.0.1:{own_store.port} does not answer") as refusal:
        checks.check_store(own_store.url)
    assert own_store.password not in str(refusal.value)


@pytest.fixture
def loading(own_store: StandaloneStore) -> Iterator[StandaloneStore]:
    """A store that takes its time to read its data, for as long as a test looks at it."""
    starting = start_slowly(own_store)
    client = redis.Redis.from_url(own_store.url)
    deadline = time.monotonic() + PATIENCE_S
    while not is_loading(client):
        assert time.monotonic() < deadline
    yield own_store
    starting.join()


def is_loading(client: redis.Redis) -> bool:
    try:
        return bool(client.info("persistence")["loading"])
    except redis.ConnectionError:
        return False


def test_a_store_that_reads_its_data_is_waited_for(loading: StandaloneStore) -> None:
    said: list[str] = []
    assert checks.check_store(loading.url, said.append) == []
    assert said == [f"The store at 127.0.0.1:{loading.port} reads its data; waiting for it."]
    assert redis.Redis.from_url(loading.url).dbsize() == KEYS


def test_a_store_that_reads_its_data_for_ever_is_given_up(loading: StandaloneStore) -> None:
    class Leaping(ManualClock):
        def wait(self, event: threading.Event, seconds: float) -> bool:
            self.advance(checks.LOADING_S)
            return event.is_set()

    with pytest.raises(Unavailable, match="is still reading its data"):
        checks.check_store(loading.url, clock=Leaping())


def test_a_wrong_password_is_told_apart_from_silence(own_store: StandaloneStore) -> None:
    with pytest.raises(ConfigurationError, match="refused the password"):
        checks.check_store(remembered.loopback_url(own_store.port, "wrong"))


def test_a_replica_is_refused(own_store: StandaloneStore, tmp_path: Path) -> None:
    replica = StandaloneStore(tmp_path / "replica").start()
    try:
        client = redis.Redis.from_url(replica.url)
        client.config_set("masterauth", own_store.password)
        client.replicaof("127.0.0.1", own_store.port)
        with pytest.raises(ConfigurationError, match="replica"):
            checks.check_store(replica.url)
    finally:
        replica.kill()


def test_something_that_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not an address"):
        checks.check_store("localhost:6379")


@pytest.mark.parametrize("version", ["6.0.16", "5.0.7", "2.8", ""])
def test_servers_without_what_the_bus_needs_are_refused(version: str) -> None:
    with pytest.raises(ConfigurationError, match="too old"):
        checks.judge_store("here:6379", {"redis_version": version, "maxmemory_policy": "noeviction"})


@pytest.mark.parametrize("version", ["6.2.0", "7.2.4", "10.0.1"])
def test_servers_with_it_pass(version: str) -> None:
    checks.judge_store("here:6379", {"redis_version": version, "maxmemory_policy": "noeviction"})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@127.0.0.1:7000/0", "127.0.0.1:7000"),
        ("redis://user:secret@db.example/3", "db.example:6379/3"),
        ("unix://:secret@/run/valkey.sock", "/run/valkey.sock"),
        ("redis://:se@cret@[::1]", "[::1]:6379"),
        ("sentinel://u:secret@one:26379,two/orders?db=2", "one:26379,two:26379/orders"),
        ("cluster://:secret@one:7000,two:7001", "one:7000,two:7001"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert installation.shown(url) == shown


@pytest.mark.django_db(databases=["default", "ledger"])
def test_the_databases_of_a_sound_installation_pass() -> None:
    checks.check_databases()
    checks.check_migrated()


def test_a_taken_port_is_refused_with_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"Port {port} on 127.0.0.1 is taken") as refusal:
            checks.check_port("127.0.0.1", port)
        assert "PORT=" in refusal.value.remedy
    checks.check_port("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"203\.0\.113\.7"):
        checks.check_port("203.0.113.7", 8119)


def test_sentinels_lead_to_a_store_that_passes(own_trio: SentinelTrio) -> None:
    assert checks.check_store(own_trio.url) == []
    # One of them alone knows as much.
    first, rest = own_trio.url.split(",", 1)
    assert checks.check_store(f"{first}/{rest.partition('/')[2]}") == []


def test_a_primary_that_is_being_chosen_is_waited_for(own_trio: SentinelTrio) -> None:
    own_trio.kill_primary()
    said: list[str] = []

    assert checks.check_store(own_trio.url, said.append) == []

    (sentence,) = said
    assert sentence.endswith("has no primary that answers; waiting for another.")
    assert own_trio.password not in sentence


def test_a_name_that_the_sentinels_do_not_know_is_given_up(own_trio: SentinelTrio) -> None:
    class Leaping(ManualClock):
        def wait(self, event: threading.Event, seconds: float) -> bool:
            self.advance(checks.CHOOSING_S)
            return event.is_set()

    with pytest.raises(Unavailable, match="name no living primary called 'other'") as refusal:
        checks.check_store(own_trio.url.replace(f"/{own_trio.name}", "/other"), clock=Leaping())
    assert own_trio.password not in str(refusal.value)
    assert own_trio.sentinel_password not in str(refusal.value)


def test_every_primary_of_a_cluster_is_looked_at(store_cluster: StoreCluster) -> None:
    assert checks.check_store(store_cluster.url) == []
    last = store_cluster.servers[2].client
    last.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(ConfigurationError, match="may evict") as refusal:
            checks.check_store(store_cluster.url, field="HBUS_STORES")
    finally:
        last.config_set("maxmemory-policy", "noeviction")
    assert refusal.value.field == "HBUS_STORES"


def test_a_cluster_and_a_single_server_are_told_apart(store_cluster: StoreCluster, own_store: StandaloneStore) -> None:
    with pytest.raises(ConfigurationError, match="is no cluster") as refusal:
        checks.check_store(own_store.url.replace("redis://", "cluster://"))
    assert "redis://" in refusal.value.remedy
    one = store_cluster.url.replace("cluster://", "redis://").partition(",")[0]
    with pytest.raises(ConfigurationError, match="is a node of a cluster") as refusal:
        checks.check_store(one)
    assert "cluster://" in refusal.value.remedy
    # A replica of a cluster is one, too: its primary would be no better.
    replica = f"redis://:{store_cluster.password}@127.0.0.1:{store_cluster.servers[3].port}"
    with pytest.raises(ConfigurationError, match="is a node of a cluster"):
        checks.check_store(replica)


@pytest.fixture
def sentinel_port(tmp_path: Path) -> Iterator[int]:
    """A Sentinel that watches nothing."""
    port = store.free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n")
    process = subprocess.Popen([str(store.find_binary()), str(config), "--sentinel"], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    until("the Sentinel answers", client.ping)
    client.close()
    yield port
    process.kill()
    process.wait()


def test_a_sentinel_is_no_store(sentinel_port: int) -> None:
    with pytest.raises(ConfigurationError, match="is a Sentinel, which knows where the store is") as refusal:
        checks.check_store(f"redis://127.0.0.1:{sentinel_port}/0")
    assert "sentinel://" in refusal.value.remedy


def test_several_hosts_in_the_address_of_one_server_are_refused_with_the_ways_to_write_them() -> None:
    for hosts in ("one:6379,two:6379", "one,two", "one,two:6379"):
        with pytest.raises(ConfigurationError, match="REDIS_URL names several hosts") as refusal:
            checks.check_store(f"redis://user:secret@{hosts}/0")
        assert "cluster://" in refusal.value.remedy
        assert "secret" not in str(refusal.value)


def test_a_store_that_takes_no_more_connections_is_no_store_that_is_away(own_store: StandaloneStore) -> None:
    with redis.Redis.from_url(own_store.url) as client:
        client.config_set("maxclients", 1)
        with pytest.raises(Unavailable, match="takes no more connections: as many as its maxclients allows") as refusal:
            checks.check_store(own_store.url)
    assert "does not answer" not in str(refusal.value)


def test_a_store_that_answers_too_slowly_is_no_store_that_is_away(
    own_store: StandaloneStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "ANSWER_S", 0.1)
    with (
        slow_store(own_store.url, 1.0) as url,
        pytest.raises(Unavailable, match="is there and does not answer in time") as refusal,
    ):
        checks.check_store(url)
    assert "SLOWLOG" in refusal.value.remedy
