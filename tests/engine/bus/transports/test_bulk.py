"""Publishing a write once, where the store says no, loses its answer or is another's copy; and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from engine.bus import BusConfig, Lane, Outgoing, PublishesInBulk
from engine.bus.bulk import Appended
from engine.bus.transport import Transport
from engine.bus.transports.redis_stream import open_transport
from engine.core.errors import OutcomeUnknown, Unavailable
from engine.core.store.failures import AnswerLost
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.transports.conftest import TOPIC
from tests.engine.bus.transports.proxy import Proxy

LANE = Lane("w", "r", "0", 60_000)
ROOT = f"hbus:{{{TOPIC}}}"


def batch(first: int, beyond: int) -> list[Outgoing]:
    return [Outgoing("id", b"%d" % number, idempotency_key=f"k{number}") for number in range(first, beyond)]


def bulk(transport: Transport, first: int, beyond: int, *ordering_keys: str) -> Appended:
    assert isinstance(transport, PublishesInBulk)
    return transport.publish_bulk(TOPIC, LANE, batch(first, beyond), ordering_keys)


def stored(transport: Transport) -> list[bytes]:
    return [entry.body for entry in transport.admin.browse(TOPIC, limit=10_000).entries]


@pytest.fixture
def proxy(own_store: StandaloneStore) -> Iterator[Proxy]:
    made = Proxy(own_store.port)
    yield made
    made.close()


def test_an_answer_that_was_lost_is_asked_for_again(
    own_store: StandaloneStore, proxy: Proxy, transport: Transport
) -> None:
    distant = open_transport(BusConfig(url=own_store.url.replace(str(own_store.port), str(proxy.port))))
    assert bulk(distant, 0, 10, *"abcdefghij") == Appended(10, 0)
    proxy.mode = "cut"
    with pytest.raises(AnswerLost):
        bulk(distant, 0, 20)
    proxy.mode = "pass"

    assert bulk(distant, 0, 20) == Appended(0, 20)

    assert stored(transport) == [b"%d" % number for number in range(20)]
    distant.close()


def test_a_full_store_takes_nothing_of_a_call_and_says_from_where_on(server: redis.Redis, transport: Transport) -> None:
    bulk(transport, 0, 600)
    server.config_set("maxmemory", "1mb")

    refused = bulk(transport, 0, 1_200)
    in_order = bulk(transport, 600, 601, "new key")

    assert (refused.stored, refused.known) == (0, 600)
    assert "OOM" in refused.error
    assert "It is full" in refused.remedy
    assert (in_order.done, "OOM" in in_order.error) == (0, True)
    server.config_set("maxmemory", "0")
    assert bulk(transport, 0, 1_200) == Appended(600, 600)
    assert len(stored(transport)) == 1_200


def test_a_stream_that_takes_nothing_more_remembers_nothing_that_it_did_not_take(
    own_store: StandaloneStore, server: redis.Redis
) -> None:
    transport = open_transport(BusConfig(url=own_store.url))
    bulk(transport, 0, 2)
    server.xadd(f"{ROOT}:normal", {"event": b"last"}, id="18446744073709551615-18446744073709551615")

    answer = bulk(transport, 0, 5)

    assert (answer.stored, answer.known) == (0, 2)
    assert "exhausted" in answer.error
    assert server.scard(f"{ROOT}:idem-written:w") == 2
    transport.close()


def test_of_a_server_that_only_copies_another_it_is_asked_again(server: redis.Redis, transport: Transport) -> None:
    server.replicaof("127.0.0.1", "1")
    with pytest.raises(Unavailable, match="READONLY"):
        bulk(transport, 0, 2)
    server.replicaof("NO", "ONE")
    assert bulk(transport, 0, 2) == Appended(2, 0)


def test_replicas_that_do_not_have_it_leave_it_unknown(transport: Transport) -> None:
    cautious = transport.confirming(1)  # type: ignore[attr-defined]
    with pytest.raises(OutcomeUnknown, match="0 of 1 replicas"):
        bulk(cautious, 0, 2)
    assert bulk(transport, 0, 2) == Appended(0, 2)


def test_what_it_keeps_expires_a_window_after_the_last_call(server: redis.Redis, transport: Transport) -> None:
    bulk(transport, 0, 2, "k", "k")

    kept = sorted(server.scan_iter("*:idem-*"))

    assert len(kept) == 2
    for key in kept:
        assert key.startswith(ROOT.encode())
        assert 59_000 < server.pttl(key) <= 60_000
    assert server.hgetall(kept[0]) == {b"k": b"0"}
    transport.admin.delete_topic(TOPIC)
    assert not [key for key in server.keys("*") if b":idem-" in key]
