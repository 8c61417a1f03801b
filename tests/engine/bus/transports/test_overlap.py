"""Publishing chunk after chunk: the next is built while the store is at work, and every outcome stays exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import redis

from engine.bus.config import BusConfig
from engine.bus.transport import Outcome, Outgoing, Overlapping, Status, Transport
from engine.bus.transports.redis_stream import open_transport
from engine.bus.transports.redis_stream.topic import AHEAD
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.transports.conftest import TOPIC
from tests.engine.bus.transports.proxy import Proxy

Chunk = Sequence[Outgoing]


@pytest.fixture
def proxy(own_store: StandaloneStore) -> Iterator[Proxy]:
    made = Proxy(own_store.port)
    yield made
    made.close()


@pytest.fixture
def distant(own_store: StandaloneStore, proxy: Proxy) -> Iterator[Transport]:
    """A transport whose connection can be cut."""
    made = open_transport(BusConfig(url=own_store.url.replace(str(own_store.port), str(proxy.port))))
    yield made
    made.close()


def chunks(number: int, size: int = 3) -> list[list[Outgoing]]:
    return [[Outgoing(f"{chunk}-{one}", b"%d-%d" % (chunk, one)) for one in range(size)] for chunk in range(number)]


def publish(transport: Transport, given: Iterator[Chunk]) -> list[list[Outcome]]:
    assert isinstance(transport, Overlapping)
    return list(transport.publish_chunks(TOPIC, given))


def stored(transport: Transport) -> list[str]:
    return [entry.body.decode() for entry in transport.admin.browse(TOPIC, limit=10_000).entries]


def statuses(outcomes: list[list[Outcome]]) -> list[set[Status]]:
    return [{outcome.status for outcome in chunk} for chunk in outcomes]


def test_all_is_stored_and_answered_in_order(transport: Transport) -> None:
    given = chunks(5)

    outcomes = publish(transport, iter(given))

    ids = [[message.message_id for message in chunk] for chunk in given]
    assert [[outcome.message_id for outcome in chunk] for chunk in outcomes] == ids
    assert statuses(outcomes) == [{Status.OK}] * 5
    assert stored(transport) == [one for chunk in ids for one in chunk]


def test_the_next_chunks_are_asked_for_before_the_one_ahead_is_answered(transport: Transport) -> None:
    events: list[str] = []

    def given() -> Iterator[Chunk]:
        for number, chunk in enumerate(chunks(AHEAD + 1)):
            events.append(f"build {number}")
            yield chunk

    assert isinstance(transport, Overlapping)
    for number, _ in enumerate(transport.publish_chunks(TOPIC, given())):
        events.append(f"answer {number}")

    built, answered = ([f"{what} {number}" for number in range(AHEAD + 1)] for what in ("build", "answer"))
    assert events == [*built[:AHEAD], answered[0], built[AHEAD], *answered[1:]]


def test_a_break_leaves_what_was_sent_unknown_and_the_rest_unsent(
    distant: Transport, proxy: Proxy, transport: Transport
) -> None:
    distant.ping()
    proxy.mode = "cut"

    outcomes = publish(distant, iter(chunks(6)))

    said = [status for chunk in statuses(outcomes) for status in chunk]
    assert len(said) == 6
    assert said[0] is Status.UNKNOWN
    # Those behind it were on their way or not, and are said to be one or the other; nothing failed was stored.
    assert said[AHEAD:] == [Status.FAILED] * (6 - AHEAD)
    assert {int(body[0]) for body in stored(transport)} <= {
        at for at, each in enumerate(said) if each is not Status.FAILED
    }
    assert "before it failed" in outcomes[5][0].error


def test_a_store_that_is_away_fails_every_chunk(own_store: StandaloneStore, transport: Transport) -> None:
    own_store.kill()

    outcomes = publish(transport, iter(chunks(3)))

    assert statuses(outcomes) == [{Status.FAILED}] * 3
    assert str(own_store.port) in outcomes[0][0].error


def test_a_store_that_forgot_its_scripts_takes_every_chunk(transport: Transport, server: redis.Redis) -> None:
    publish(transport, iter(chunks(1)))
    server.script_flush()

    assert statuses(publish(transport, iter(chunks(3)))) == [{Status.OK}] * 3


def test_a_refusal_is_quoted_and_the_connection_stays_in_step(transport: Transport, server: redis.Redis) -> None:
    server.config_set("maxmemory", 1)
    outcomes = publish(transport, iter(chunks(3)))
    server.config_set("maxmemory", 0)

    assert statuses(outcomes) == [{Status.FAILED}] * 3
    assert "OOM" in outcomes[0][0].error
    # And what follows on that connection gets its own answers
    assert statuses(publish(transport, iter(chunks(2)))) == [{Status.OK}] * 2


def test_a_caller_that_gives_up_leaves_no_stale_answer_behind(transport: Transport) -> None:
    def given() -> Iterator[Chunk]:
        yield from chunks(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(transport, given())

    # The answers that nobody read must not be taken for those of the next command
    assert transport.ping() >= 0
    assert [outcome.message_id for outcome in transport.publish(TOPIC, [Outgoing("next", b"next")])] == ["next"]
    assert stored(transport)[-1] == "next"
