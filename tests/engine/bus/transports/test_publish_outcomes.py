"""What a publish says when the store is away, breaks off, or refuses: failed, unknown, never an exception."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from engine.bus.config import BusConfig
from engine.bus.errors import PublishFailed
from engine.bus.receipts import answer_to
from engine.bus.transport import Outcome, Outgoing, Overlapping, Priority, Status, Transport
from engine.bus.transports.redis_stream import open_transport
from engine.bus.transports.redis_stream.scripts import PUBLISH
from engine.core.errors import Unavailable
from engine.core.store import StoreAddress, open_nodes
from engine.core.store.failures import AnswerLost, NotSent
from engine.core.store.link import Link
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.transports.conftest import GROUP, TOPIC
from tests.engine.bus.transports.proxy import Proxy
from tests.loading import start_slowly

KEYED = Outgoing("first", b"x", idempotency_key="k", idempotency_digest="d", idempotency_window_ms=60_000)


@pytest.fixture
def proxy(own_store: StandaloneStore) -> Iterator[Proxy]:
    made = Proxy(own_store.port)
    yield made
    made.close()


@pytest.fixture
def distant(own_store: StandaloneStore, proxy: Proxy) -> Iterator[Transport]:
    """A transport whose connection can be cut."""
    made = open_transport(BusConfig(url=own_store.url.replace(str(own_store.port), str(proxy.port))))
    made.admin.create_topic(TOPIC)
    yield made
    made.close()


def stored(transport: Transport) -> list[bytes]:
    return [entry.body for entry in transport.admin.browse(TOPIC, limit=10_000).entries]


def statuses(outcomes: list[Outcome]) -> list[Status]:
    return [outcome.status for outcome in outcomes]


def test_a_store_that_is_away_makes_every_message_fail(own_store: StandaloneStore, transport: Transport) -> None:
    own_store.kill()

    outcomes = transport.publish(TOPIC, [Outgoing("a", b"1"), Outgoing("b", b"2")])

    assert statuses(outcomes) == [Status.FAILED, Status.FAILED]
    assert [outcome.message_id for outcome in outcomes] == ["a", "b"]
    assert str(own_store.port) in outcomes[0].error
    assert "REDIS_URL" in outcomes[0].error


def test_publishing_goes_on_when_the_store_is_back(own_store: StandaloneStore, transport: Transport) -> None:
    # Given a transport that has used its connection, and a store that restarts and forgets all scripts
    transport.publish(TOPIC, [Outgoing("a", b"1")])
    own_store.stop()
    own_store.start()

    # When it publishes over the connection that the store has closed
    outcomes = transport.publish(TOPIC, [Outgoing("b", b"2")])

    # Then that is noticed before sending: no outcome is left unknown
    assert statuses(outcomes) == [Status.OK]
    assert stored(transport) == [b"1", b"2"]


def test_a_connection_cut_after_sending_leaves_the_outcome_unknown(
    distant: Transport, proxy: Proxy, transport: Transport
) -> None:
    distant.publish(TOPIC, [Outgoing("warm", b"warm")])
    proxy.mode = "cut"

    (outcome,) = distant.publish(TOPIC, [Outgoing("a", b"1")])

    assert outcome.status is Status.UNKNOWN
    assert outcome.message_id == "a"
    assert outcome.error
    # It was stored, which the publisher cannot know
    assert stored(transport) == [b"warm", b"1"]


def test_repeating_an_unknown_publish_with_its_key_is_safe(
    distant: Transport, proxy: Proxy, transport: Transport
) -> None:
    # Given a server that knows the script which looks at keys
    distant.publish(TOPIC, [Outgoing("warm", b"warm", Priority.HIGH)])
    proxy.mode = "cut"
    (unknown,) = distant.publish(TOPIC, [KEYED])
    proxy.mode = "pass"

    (again,) = distant.publish(TOPIC, [KEYED])

    assert (unknown.status, again.status) == (Status.UNKNOWN, Status.DUPLICATE)
    assert again.message_id == "first"
    assert stored(transport) == [b"warm", b"x"]


def test_what_was_not_sent_after_a_break_is_failed_so_that_order_holds(
    distant: Transport, proxy: Proxy, transport: Transport
) -> None:
    # Given a batch of three script calls
    distant.publish(TOPIC, [Outgoing("warm", b"warm")])
    batch = [Outgoing(str(index), b"%d" % index) for index in range(1_200)]
    proxy.mode = "cut"

    outcomes = distant.publish(TOPIC, batch)

    # Then the first call's messages are unknown, the others certainly not stored
    assert statuses(outcomes) == [Status.UNKNOWN] * 500 + [Status.FAILED] * 700
    assert [outcome.message_id for outcome in outcomes] == [message.message_id for message in batch]
    assert len(stored(transport)) == 501


def test_a_store_that_does_not_answer_in_time_leaves_the_outcome_unknown(
    own_store: StandaloneStore, proxy: Proxy
) -> None:
    address = StoreAddress.parse(own_store.url.replace(str(own_store.port), str(proxy.port)))
    link = Link(open_nodes(address, answer_timeout_s=0.2))
    link.command("PING")
    proxy.mode = "mute"

    with pytest.raises(AnswerLost) as caught:
        link.command("PING")

    assert isinstance(caught.value, Unavailable)
    assert caught.value.remedy


def test_a_refused_connection_is_known_not_to_have_sent_anything(own_store: StandaloneStore) -> None:
    own_store.kill()
    with pytest.raises(NotSent):
        Link.open(own_store.url).command("PING")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), "OOM"),
        (("REPLICAOF", "127.0.0.1", "1"), "READONLY"),
    ],
)
def test_a_store_that_refuses_is_quoted_and_nothing_is_stored(
    transport: Transport, server: redis.Redis, setting: tuple[str, ...], words: str
) -> None:
    server.execute_command(*setting)

    (outcome,) = transport.publish(TOPIC, [KEYED])

    assert outcome.status is Status.FAILED
    assert words in outcome.error
    assert stored(transport) == []
    # And neither is the idempotency key
    assert not server.keys("*idem*")


def test_a_store_that_reads_its_data_is_quoted(own_store: StandaloneStore, transport: Transport) -> None:
    # When it starts, and a publisher tries all the while
    start = start_slowly(own_store)
    errors = []
    while not (outcome := transport.publish(TOPIC, [Outgoing("a", b"1")])[0]).position:
        assert outcome.status is Status.FAILED
        errors.append(outcome.error)
    start.join()

    # Then the answers were refusals in its words, never unknown, and the last one went through
    assert [error for error in errors if "LOADING" in error and "try again shortly" in error]


def test_one_message_that_the_store_refuses_fails_alone(transport: Transport, server: redis.Redis) -> None:
    # Given that somebody put something else where the low stream should be
    server.delete(f"hbus:{{{TOPIC}}}:low")
    server.set(f"hbus:{{{TOPIC}}}:low", "not a stream")

    outcomes = transport.publish(TOPIC, [Outgoing("a", b"1"), Outgoing("b", b"2", Priority.LOW), Outgoing("c", b"3")])

    assert statuses(outcomes) == [Status.OK, Status.FAILED, Status.OK]
    assert "WRONGTYPE" in outcomes[1].error


def test_scripts_are_sent_again_when_the_store_has_forgotten_them(transport: Transport, server: redis.Redis) -> None:
    transport.publish(TOPIC, [Outgoing("a", b"1")])
    assert server.script_exists(PUBLISH.sha) == [True]
    server.script_flush()

    assert statuses(transport.publish(TOPIC, [Outgoing("b", b"2")])) == [Status.OK]
    assert server.script_exists(PUBLISH.sha) == [True]


def test_a_topic_can_be_published_to_before_anybody_made_it(transport: Transport) -> None:
    assert statuses(transport.publish("new.topic", [Outgoing("a", b"1")])) == [Status.OK]
    assert transport.admin.create_group("new.topic", GROUP) is True
    receiver = transport.receiver("new.topic", GROUP, consumer="c", lease_ms=1_000)
    assert [delivery.body for delivery in receiver.receive(1, 0)] == [b"1"]
    receiver.close()


def test_a_stream_that_was_ended_says_what_helps_and_that_does(distant: Transport, server: redis.Redis) -> None:
    distant.admin.create_group(TOPIC, GROUP)
    assert statuses(distant.publish(TOPIC, [Outgoing("a", b"1")])) == [Status.OK]
    last = f"{2**64 - 1}-{2**64 - 1}"
    stream = f"hbus:{{{TOPIC}}}:normal"
    server.xadd(stream, {"event": b"2"}, id=last)

    answers = [
        *distant.publish(TOPIC, [Outgoing("b", b"3")]),
        *distant.publish(TOPIC, [KEYED]),
        *distant.publish(TOPIC, [Outgoing("c", b"4"), Outgoing("d", b"5", idempotency_key="d")]),
    ]
    assert isinstance(distant, Overlapping)
    for outcomes in distant.publish_chunks(TOPIC, iter([[Outgoing("e", b"6")], [Outgoing("f", b"7")]])):
        answers += outcomes
    assert set(statuses(answers)) == {Status.FAILED}
    for answer in answers:
        told = answer_to(TOPIC, answer)
        assert isinstance(told, PublishFailed)
        assert "exhausted the last possible ID" in told.what
        assert "make it anew" in told.remedy
        assert "Publish it again" not in told.remedy

    # Taking the entry out does not help, as the documents say
    server.xdel(stream, last)
    with pytest.raises(redis.ResponseError):
        server.xadd(stream, {"event": b"8"})
    receiver = distant.receiver(TOPIC, GROUP, consumer="c", lease_ms=30_000)
    assert [each.body for each in receiver.receive(10, 0)] == [b"1"]
    receiver.close()
    # Made anew it takes messages again
    distant.admin.delete_topic(TOPIC)
    distant.admin.create_topic(TOPIC)
    assert statuses(distant.publish(TOPIC, [Outgoing("g", b"9")])) == [Status.OK]
    assert stored(distant) == [b"9"]
