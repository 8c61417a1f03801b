"""A topic that asks for replicas is confirmed only once they have its messages."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

import pytest
from redis.connection import AbstractConnection

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.delays import Delayed, RedisDelays, Whereabouts
from engine.bus.errors import PublishFailed, PublishRefused, PublishUnknown
from engine.bus.optional import Replicating
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Producer
from engine.bus.registry import open_transport
from engine.bus.transport import Outgoing, Status, Transport
from engine.core import scripts
from engine.core.facts import MemoryFacts
from engine.core.store import open_client
from hbus_console.supervisor.standalone import StandaloneStore
from tests.store_servers import until

TOPIC = "booking.created"


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "REPLICAS_WAIT_MS", 50)


@pytest.fixture
def alone(own_store: StandaloneStore) -> Iterator[Transport]:
    """On a store without any replica."""
    made = open_transport(BusConfig(url=own_store.url))
    made.admin.create_topic(TOPIC)
    yield made
    made.close()


def producer(transport: Transport, replicas: int) -> Producer:
    catalog = StaticCatalog(TopicPolicy(TOPIC, "Bookings", replicas=replicas))
    return Producer(lambda _: transport, catalog, source="/test", facts=MemoryFacts())


def test_what_no_replica_has_is_unknown(alone: Transport) -> None:
    publishing = producer(alone, replicas=1)

    with pytest.raises(PublishUnknown, match="0 of 1 replicas have it"):
        publishing.publish(TOPIC, {"n": 1}, PublishOptions(idempotency_key="k"))

    # It is stored all the same, and repeating it stays unknown while no replica has it.
    with pytest.raises(PublishUnknown, match="0 of 1 replicas have it"):
        publishing.publish(TOPIC, {"n": 1}, PublishOptions(idempotency_key="k"))
    assert len(alone.admin.browse(TOPIC).entries) == 1


def test_a_large_batch_waits_for_replicas_too(alone: Transport) -> None:
    answers = producer(alone, replicas=1).publish_batch(TOPIC, [BatchItem({"n": number}) for number in range(350)])

    assert {type(answer) for answer in answers} == {PublishUnknown}
    assert alone.admin.depth(TOPIC).messages == 350


def test_without_asking_for_replicas_the_store_itself_confirms(alone: Transport) -> None:
    assert producer(alone, replicas=0).publish(TOPIC, {"n": 1}).position


def test_a_conflict_stays_one(alone: Transport) -> None:
    assert isinstance(alone, Replicating)
    confirming = alone.confirming(1)
    first = Outgoing("a", b"1", idempotency_key="k", idempotency_digest="1", idempotency_window_ms=60_000)
    other = Outgoing("b", b"2", idempotency_key="k", idempotency_digest="2", idempotency_window_ms=60_000)

    assert [outcome.status for outcome in confirming.publish(TOPIC, [first, other])] == [
        Status.UNKNOWN,
        Status.CONFLICT,
    ]


def test_a_primary_that_was_told_to_have_replicas_takes_nothing_without_them(
    own_store: StandaloneStore, alone: Transport
) -> None:
    with open_client(own_store.url) as server:
        server.config_set("min-replicas-to-write", 1)

    with pytest.raises(PublishFailed, match=r"(?s)NOREPLICAS .* min-replicas-to-write"):
        producer(alone, replicas=0).publish(TOPIC, {"n": 1})

    assert alone.admin.depth(TOPIC).messages == 0


def test_delayed_messages_wait_for_them_as_well(own_store: StandaloneStore, prefix: str) -> None:
    delays = RedisDelays(open_client(own_store.url), prefix, replicas=1)

    (outcome,) = delays.schedule(TOPIC, [Delayed("a", "/s", b"x", 1)])

    assert outcome.status is Status.UNKNOWN
    assert "0 of 1 replicas have it" in outcome.error


class Cut:
    """Breaks the connection, once, in the moment at which a command is to go out: what is before it has gone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, command: bytes) -> None:
        self.done = False
        send, named = AbstractConnection.send_packed_command, b"\r\n$%d\r\n%s\r\n" % (len(command), command)

        def sent(connection: AbstractConnection, packed: Sequence[bytes], check_health: bool = True) -> object:
            parts = b"".join(packed)
            at = parts.find(named)
            if self.done or at < 0:
                return send(connection, packed, check_health)
            self.done = True
            begins = parts.rindex(b"*", 0, at)
            wire = connection._sock
            assert isinstance(wire, socket.socket)
            wire.sendall(parts[:begins])
            wire.shutdown(socket.SHUT_WR)
            return send(connection, [parts[begins:]], check_health)

        monkeypatch.setattr(AbstractConnection, "send_packed_command", sent)


@pytest.mark.parametrize("number", [1, 350])
def test_what_was_sent_before_nobody_could_be_asked_to_wait_is_unknown(
    alone: Transport, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    cut = Cut(monkeypatch, b"WAIT")

    answers = producer(alone, replicas=1).publish_batch(TOPIC, [BatchItem({"n": each}) for each in range(number)])

    assert cut.done
    # They are stored, and the rest of them was not sent.
    until("the store has the first of them", lambda: alone.admin.depth(TOPIC).messages > 0)
    stored = alone.admin.depth(TOPIC).messages
    assert [type(each) for each in answers] == [PublishUnknown] * stored + [PublishFailed] * (number - stored)


def test_of_a_delayed_message_it_is_unknown_as_well(
    own_store: StandaloneStore, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = RedisDelays(open_client(own_store.url), prefix, replicas=1)
    cut = Cut(monkeypatch, b"WAIT")

    (outcome,) = delays.schedule(TOPIC, [Delayed("a", "/s", b"x", 1)])

    assert cut.done
    assert outcome.status is Status.UNKNOWN
    until("the store keeps it", lambda: delays.standings([(TOPIC, "/s", "a")]) == [Whereabouts.KEPT])


def test_what_could_not_be_sent_at_all_has_failed(alone: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Cut(monkeypatch, b"EVAL")

    with pytest.raises(PublishFailed):
        producer(alone, replicas=1).publish(TOPIC, {"n": 1})

    assert cut.done
    assert alone.admin.depth(TOPIC).messages == 0


def test_a_transport_without_replicas_refuses_such_a_topic() -> None:
    with pytest.raises(PublishRefused, match="has none") as refused:
        producer(open_transport(BusConfig(type="memory")), replicas=1).publish(TOPIC, {"n": 1})

    assert refused.value.field == "replicas"
