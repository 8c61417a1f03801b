"""Addresses of stores, and which node a command belongs to."""

from __future__ import annotations

import pytest
import redis

from engine.core.errors import ConfigurationError
from engine.core.store import StoreAddress, key_of, open_client, slot_of
from engine.core.store.address import StoreKind
from engine.core.store.failures import NotSent, refusal
from engine.core.store.link import Link
from hbus_console.supervisor.standalone import StandaloneStore
from tests.store_servers import SentinelTrio


@pytest.mark.parametrize(
    ("url", "kind", "shown", "password", "database"),
    [
        ("redis://:pa%40ss@store:6380/3", StoreKind.SINGLE, "store:6380", "pa@ss", 3),
        ("redis://store", StoreKind.SINGLE, "store:6379", None, 0),
        ("rediss://u:p@[::1]:6380", StoreKind.SINGLE, "[::1]:6380", "p", 0),
        ("unix:///run/valkey.sock", StoreKind.SINGLE, "/run/valkey.sock", None, 0),
        ("sentinel://u:p%40@a:1,b/main?db=2", StoreKind.SENTINEL, "a:1,b:26379/main", "p@", 2),
        ("sentinels://:p@[::1]:1,b:2/main", StoreKind.SENTINEL, "[::1]:1,b:2/main", "p", 0),
        ("cluster://u:p@a:1,b,c:3", StoreKind.CLUSTER, "a:1,b:6379,c:3", "p", 0),
        ("clusters://:p@a:1/0", StoreKind.CLUSTER, "a:1", "p", 0),
    ],
)
def test_an_address_is_taken_apart(url: str, kind: StoreKind, shown: str, password: str | None, database: int) -> None:
    address = StoreAddress.parse(url)

    assert address.kind is kind
    assert str(address) == shown
    assert address.options.get("password") == password
    assert address.database == database
    assert address.encrypted is url.startswith(("rediss", "sentinels", "clusters"))
    # Nothing that is shown holds a secret.
    assert "pass" not in repr(address).replace("password", "")
    assert "p@" not in repr(address)


def test_the_sentinels_have_a_password_of_their_own() -> None:
    address = StoreAddress.parse("sentinel://:store@a/main?sentinel_password=watch%20er&sentinel_username=w")

    assert address.sentinel_options == {"username": "w", "password": "watch er"}
    assert dict(address.options) == {"password": "store"}


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://store:6379", "begins with none of"),
        ("store:6379", "begins with none of"),
        ("sentinel://:secret@a:1,b:2", "does not say what the Sentinels call the primary"),
        ("sentinel://:secret@a:1,b:2/main/0", "does not say what the Sentinels call the primary"),
        ("sentinel://:secret@a:port/main", "a host or a port that is none"),
        ("sentinel://:secret@/main", "a host or a port that is none"),
        ("cluster://:secret@a:1,,b:2", "a host or a port that is none"),
        ("cluster://:secret@a:1/2", "a cluster has only one"),
        ("cluster://:secret@a:1?db=2", "a cluster has only one"),
        ("cluster://:sec/ret@a:1", "a host or a port that is none"),
        ("redis://:secret@host:port", "is not a Redis URL"),
        ("redis://:secret@host?replicas=many", "asks for a number of replicas that is none"),
        ("cluster://:secret@host?replicas=9", "asks for a number of replicas that is none"),
        ("redis://:secret@host?pasword=secret", "a word behind its ? that no connection knows"),
        ("sentinel://:secret@host/main?ssl_password=secret", "a word behind its ? that no connection knows"),
    ],
)
def test_what_is_no_address_is_refused_by_field_and_remedy_without_quoting_it(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        StoreAddress.parse(url, field="HBUS_STORES")

    assert why in str(caught.value)
    assert caught.value.field == "HBUS_STORES"
    assert caught.value.remedy.startswith("Write ")
    assert "sec" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("args", "key"),
    [
        (("GET", "a"), "a"),
        (("EVALSHA", "digest", 2, "a", "b", "arg"), "a"),
        (("XREAD", "COUNT", 1, "BLOCK", 5, "STREAMS", "a", "b", "0", "0"), "a"),
        (("XREAD", b"STREAMS", "a", "0"), "a"),
        (("XINFO STREAM", "a"), "a"),
        (("XINFO", "GROUPS", "a"), "a"),
        (("MEMORY", "USAGE", b"a"), b"a"),
        (("XGROUP", "DESTROY", "a", "group"), "a"),
        (("PING",), ""),
        (("CONFIG GET", "x"), ""),
        (("SCRIPT LOAD", "return 1"), ""),
    ],
)
def test_a_command_belongs_to_the_node_of_its_first_key(args: tuple[object, ...], key: str | bytes) -> None:
    assert key_of(args) == key


def test_what_stands_in_braces_decides_the_slot() -> None:
    # The example of the specification of Redis Cluster.
    assert slot_of("123456789") == 0x31C3
    assert slot_of("h:{topic}:normal") == slot_of("h:{topic}:group:g:leases") == slot_of(b"topic")
    assert slot_of("h:{a}:normal") != slot_of("h:{b}:normal")


def test_a_client_connects_on_first_use_and_not_before(own_store: StandaloneStore) -> None:
    own_store.stop()
    clients = [
        open_client(own_store.url),
        open_client(f"sentinel://127.0.0.1:{own_store.port}/main"),
        open_client(f"cluster://127.0.0.1:{own_store.port}"),
    ]

    for client in clients:
        with pytest.raises(redis.ConnectionError):
            client.get("key")
        client.close()


@pytest.mark.parametrize("scheme", ["redis", "sentinel", "cluster"])
def test_what_is_said_of_a_store_that_is_away_holds_no_password(own_store: StandaloneStore, scheme: str) -> None:
    own_store.stop()
    url = f"{scheme}://user:first-secret@127.0.0.1:{own_store.port}"
    if scheme == "sentinel":
        url += "/main?sentinel_password=second-secret"
    client = open_client(url)

    with pytest.raises(redis.ConnectionError) as plain:
        client.get("key")
    with pytest.raises(NotSent) as linked:
        Link.open(url).command("GET", "key")

    for said in (repr(client), str(plain.value), str(linked.value), repr(plain.value.args)):
        assert "secret" not in said
    assert str(own_store.port) in str(linked.value)
    assert "REDACTED" not in str(linked.value)


def test_sentinels_that_refuse_the_password_say_so(own_trio: SentinelTrio) -> None:
    client = open_client(own_trio.url.replace(own_trio.sentinel_password, "wrong"))

    with pytest.raises(redis.ConnectionError, match="they refuse sentinel_password"):
        client.get("key")


def test_who_is_no_cluster_says_so(own_store: StandaloneStore) -> None:
    client = open_client(own_store.url.replace("redis://", "cluster://"))

    with pytest.raises(redis.ResponseError, match="cluster support disabled"):
        client.get("key")


@pytest.mark.parametrize("words", [{"socket_timeout": 2}, {"socket_connect_timeout": 2}])
def test_a_patience_that_would_not_count_is_refused(words: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="say answer_timeout_s"):
        open_client("redis://127.0.0.1:1/0", **words)


def test_the_patience_that_is_asked_for_counts() -> None:
    told = open_client(
        "redis://127.0.0.1:1/0", answer_timeout_s=2, connect_timeout_s=3
    ).connection_pool.connection_kwargs
    assert (told["socket_timeout"], told["socket_connect_timeout"]) == (2, 3)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "Error running script (call to f_918386ee): @user_script:10: @user_script: 10: -",
        "@user_script: 191: -",
    ],
    ids=["Valkey", "Redis 6.2", "Redis 6.2, handed on by a script"],
)
def test_where_a_script_stood_is_not_told_to_whoever_reads_of_a_refusal(before: str) -> None:
    what, remedy = refusal(f"{before}OOM command not allowed when used memory > 'maxmemory'. Look at it.")
    assert what == "OOM command not allowed when used memory > 'maxmemory'"
    assert "memory limit" in remedy
