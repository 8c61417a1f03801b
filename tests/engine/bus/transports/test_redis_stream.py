"""What is particular to Redis Streams: keys, secrets, the server's clock, and what the store holds at rest."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis

from engine.bus import bounds
from engine.bus.config import BusConfig
from engine.bus.optional import ClosesTopics
from engine.bus.registry import open_transport as open_by_name
from engine.bus.rereading import Rereads
from engine.bus.transport import Outgoing, Priority, Settlement, Status, Transport, Verdict
from engine.bus.transports.redis_stream import open_transport
from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import BadInput, ConfigurationError, Unavailable
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.bus.transports.conftest import GROUP, TOPIC, Publish


@pytest.fixture(params=[None, SystemClock()], ids=["no clock", "the machine's clock"])
def by_server_time(request: pytest.FixtureRequest, redis_url: str, prefix: str) -> Iterator[Transport]:
    """A transport that reads the time from the store, as in production."""
    made = open_by_name(BusConfig(type="redis_stream", url=redis_url, prefix=prefix), request.param)
    made.admin.create_topic(TOPIC)
    made.admin.create_group(TOPIC, GROUP)
    yield made
    made.admin.delete_topic(TOPIC)
    made.close()


def test_every_key_of_a_topic_carries_its_hash_tag(transport: Transport, publish: Publish, server: redis.Redis) -> None:
    # Given a topic in which everything has happened
    publish(b"x", b"y", b"z")
    keyed = Outgoing("k", b"k", Priority.HIGH, "key {with} braces", "d", 60_000)
    transport.publish(TOPIC, [keyed, Outgoing("l", b"l", Priority.LOW)])
    receiver = transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=1_000)
    first, second, *_ = receiver.receive(10, 0)
    receiver.settle([Settlement(first.receipt, Verdict.DEAD, dead=b"{}"), Settlement(second.receipt, Verdict.RETRY)])
    receiver.close()

    # Then every key begins with the prefix and the tag, so a cluster keeps them together
    keys = {key.decode() for key in server.keys("*")}
    assert len(keys) == 10
    assert {key[: len(TOPIC) + 7] for key in keys} == {f"hbus:{{{TOPIC}}}"}


def only_closed(server: redis.Redis) -> bool:
    """Whether nothing is left but that the topic takes nothing more, and that for a while."""
    (key,) = server.keys("*")
    return server.hgetall(key) == {b"closed": b"1"} and 0 < server.ttl(key) <= 30 * 86_400


def test_deleting_a_topic_leaves_no_count_of_what_was_trimmed(
    transport: Transport, publish: Publish, server: redis.Redis
) -> None:
    transport.admin.delete_group(TOPIC, GROUP)
    publish(b"x")
    transport.admin.trim(TOPIC, older_than_ms=None, keep_at_most=0)
    assert server.hgetall(f"hbus:{{{TOPIC}}}:trimmed") == {b"-": b"1"}

    transport.admin.delete_topic(TOPIC)

    assert only_closed(server)


def test_a_stream_that_an_older_server_did_not_count_counts_what_was_taken_of_it(
    transport: Transport, publish: Publish, server: redis.Redis
) -> None:
    assert isinstance(transport.admin, Rereads)
    transport.admin.delete_group(TOPIC, GROUP)
    publish(b"a", b"b", b"c")
    transport.admin.trim(TOPIC, older_than_ms=None, keep_at_most=1)
    before = [extent for extent in transport.admin.extents(TOPIC) if extent.last]
    assert [(extent.added, extent.held) for extent in before] == [(3, 1)]

    # As a server since 7 takes over a stream of one before: it was given what it holds.
    if int(server.info()["redis_version"].partition(".")[0]) >= 7:
        server.execute_command("XSETID", f"hbus:{{{TOPIC}}}:normal", before[0].last, "ENTRIESADDED", 1)

    assert [extent for extent in transport.admin.extents(TOPIC) if extent.last] == before


def test_deleting_a_topic_leaves_no_key_but_that_it_is_closed(
    transport: Transport, publish: Publish, server: redis.Redis
) -> None:
    publish(b"x")
    transport.publish(TOPIC, [Outgoing("k", b"k", Priority.HIGH, "key", "d", 60_000)])
    receiver = transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=1_000)
    first, _ = receiver.receive(2, 0)
    receiver.settle([Settlement(first.receipt, Verdict.RETRY)])
    receiver.close()

    transport.admin.delete_topic(TOPIC)

    assert only_closed(server)


def test_a_settled_group_keeps_nothing_per_message(transport: Transport, publish: Publish, server: redis.Redis) -> None:
    publish(*[b"%d" % index for index in range(100)])
    receiver = transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=1_000)
    batch = receiver.receive(100, 0)
    receiver.settle([Settlement(each.receipt, Verdict.RETRY) for each in batch])
    receiver.settle([Settlement(each.receipt) for each in receiver.receive(100, 0)])
    receiver.close()

    assert not server.exists(f"hbus:{{{TOPIC}}}:group:{GROUP}:leases", f"hbus:{{{TOPIC}}}:group:{GROUP}:tries")
    assert server.xpending(f"hbus:{{{TOPIC}}}:normal", GROUP)["pending"] == 0


@pytest.mark.parametrize("name", ["", "two words", "brace}", "{tag}", "line\n", "x" * 201])
def test_names_that_would_break_a_key_are_refused(transport: Transport, name: str) -> None:
    for field, act in (
        ("topic", lambda: transport.publish(name, [Outgoing("a", b"x")])),
        ("topic", lambda: transport.admin.create_topic(name)),
        ("group", lambda: transport.admin.create_group(TOPIC, name)),
        ("group", lambda: transport.receiver(TOPIC, name, consumer="c", lease_ms=1_000)),
    ):
        with pytest.raises(BadInput) as caught:
            act()
        assert caught.value.field == field


def test_positions_and_leases_follow_the_servers_clock(by_server_time: Transport) -> None:
    outcome = by_server_time.publish(TOPIC, [Outgoing("a", b"x")])[0]

    stored = by_server_time.admin.read(TOPIC, outcome.position)
    assert stored is not None
    assert abs(stored.at_ms - time.time() * 1000) < 10_000
    report = by_server_time.admin.trim(TOPIC, older_than_ms=60_000, keep_at_most=None)
    assert (report.removed, report.held) == (0, ())

    # A lease of 50 ms runs out by itself, and who waits is woken by that
    one = by_server_time.receiver(TOPIC, GROUP, consumer="one", lease_ms=50)
    two = by_server_time.receiver(TOPIC, GROUP, consumer="two", lease_ms=60_000)
    (first,) = one.receive(1, 5)
    started = time.monotonic()
    (again,) = two.receive(1, 15)
    assert time.monotonic() - started < 5
    assert (first.attempt, again.attempt) == (1, 2)
    assert 0 < again.history[0].duration_us < 5_000_000

    # A retry of 50 ms likewise
    two.settle([Settlement(again.receipt, Verdict.RETRY, 50)])
    started = time.monotonic()
    (third,) = one.receive(1, 15)
    assert time.monotonic() - started < 5
    assert third.attempt == 3
    one.close()
    two.close()


def test_an_idempotency_key_expires_in_the_store(by_server_time: Transport, redis_url: str, prefix: str) -> None:
    by_server_time.publish(TOPIC, [Outgoing("a", b"x", Priority.NORMAL, "k", "d", 60_000)])

    left = redis.Redis.from_url(redis_url).pttl(f"{prefix}:{{{TOPIC}}}:idem:k")

    assert 0 < left <= 60_000


def test_lag_is_counted_where_the_server_cannot_tell(
    transport: Transport, publish: Publish, server: redis.Redis
) -> None:
    # Given an entry deleted from the middle, after which the server's own lag is NULL; Redis 6.2 never had one
    publish(*[b"%d" % index for index in range(10)])
    entries = server.xrange(f"hbus:{{{TOPIC}}}:normal")
    receiver = transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=1_000)
    receiver.receive(2, 0)
    server.xdel(f"hbus:{{{TOPIC}}}:normal", entries[5][0])
    (group,) = server.xinfo_groups(f"hbus:{{{TOPIC}}}:normal")
    assert group.get("lag") is None

    assert transport.admin.lag(TOPIC, GROUP).waiting == 7
    receiver.close()


def test_approximate_trimming_would_not_have_been_enough(
    transport: Transport, publish: Publish, server: redis.Redis
) -> None:
    # Given ten messages, which the server keeps in one node of its tree
    publish(*[b"%d" % index for index in range(10)])
    receiver = transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=1_000)
    receiver.settle([Settlement(each.receipt) for each in receiver.receive(10, 0)])
    receiver.close()
    assert server.xtrim(f"hbus:{{{TOPIC}}}:normal", maxlen=5, approximate=True) == 0

    assert transport.admin.trim(TOPIC, older_than_ms=None, keep_at_most=5).removed == 5
    assert server.xlen(f"hbus:{{{TOPIC}}}:normal") == 5


def test_a_password_is_in_no_error_and_no_representation(own_store: StandaloneStore) -> None:
    config = BusConfig(url=own_store.url)
    transport = open_transport(config, ManualClock())
    receiver = transport.receiver(TOPIC, GROUP, consumer="c", lease_ms=1_000)
    own_store.kill()

    said = [repr(config), repr(transport), repr(receiver), repr(transport.admin)]
    for act in (transport.ping, lambda: receiver.receive(1, 0), lambda: transport.admin.create_group(TOPIC, GROUP)):
        with pytest.raises(Unavailable) as caught:
            act()
        said += [str(caught.value), repr(caught.value), str(caught.value.__cause__)]
    said += [outcome.error for outcome in transport.publish(TOPIC, [Outgoing("a", b"x")])]

    assert str(own_store.port) in said[-1]
    assert not [text for text in said if own_store.password in text]


def test_a_wrong_password_is_refused_in_the_stores_words(own_store: StandaloneStore) -> None:
    transport = open_transport(BusConfig(url=own_store.url.replace(own_store.password, "wrong-secret")))

    with pytest.raises(Unavailable, match=r"(?i)password|auth") as caught:
        transport.ping()

    assert "wrong-secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://store:6379", "redis://:top/secret@store:6379", "", "redis://x?db=top-secret"])
def test_what_is_no_redis_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_transport(BusConfig(url=url))

    assert caught.value.field == "REDIS_URL"
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__ is True


def test_plain_messages_are_appended_by_the_short_script_as_others_are_by_the_long_one(
    by_server_time: Transport, redis_url: str, prefix: str
) -> None:
    # Given a batch in which nobody asks for anything, and one in which somebody does
    client = redis.Redis.from_url(redis_url)
    plain = by_server_time.publish(TOPIC, [Outgoing(f"m{n}", f"{n}".encode()) for n in range(3)])
    mixed = by_server_time.publish(TOPIC, [Outgoing("m3", b"3"), Outgoing("h", b"h", Priority.HIGH)])
    # Then all are there, in order, and counted alike
    assert [outcome.message_id for outcome in (*plain, *mixed)] == ["m0", "m1", "m2", "m3", "h"]
    entries = {entry.position: entry.body for entry in by_server_time.admin.browse(TOPIC).entries}
    assert [entries[outcome.position] for outcome in (*plain, *mixed)] == [b"0", b"1", b"2", b"3", b"h"]
    assert by_server_time.admin.counts(TOPIC)["published"] == 5
    # And the first of a topic's life names that life, which no later one changes
    stats = f"{prefix}:{{{TOPIC}}}:stats"
    born = client.hget(stats, "incarnation")
    assert born
    by_server_time.publish(TOPIC, [Outgoing("m4", b"4")])
    assert client.hget(stats, "incarnation") == born
    client.close()


def test_what_the_store_refuses_of_a_plain_batch_is_answered_in_its_place(
    by_server_time: Transport, redis_url: str, prefix: str
) -> None:
    # Given a key of another type where the stream would be
    client = redis.Redis.from_url(redis_url)
    client.delete(f"{prefix}:{{{TOPIC}}}:normal")
    client.set(f"{prefix}:{{{TOPIC}}}:normal", "not a stream")
    outcomes = by_server_time.publish(TOPIC, [Outgoing("a", b"a"), Outgoing("b", b"b")])
    assert [(outcome.status, outcome.message_id) for outcome in outcomes] == [("failed", "a"), ("failed", "b")]
    assert all("WRONGTYPE" in outcome.error for outcome in outcomes)
    assert by_server_time.admin.counts(TOPIC)["published"] == 0
    client.delete(f"{prefix}:{{{TOPIC}}}:normal")
    client.close()


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_page_of_large_messages_is_shorter_and_the_pages_together_hold_all(
    by_server_time: Transport, monkeypatch: pytest.MonkeyPatch, newest_first: bool
) -> None:
    # Given more large messages of one priority than a page may hold, and small ones of another beside them
    monkeypatch.setattr(bounds, "PAGE_BYTES", 3 * 20_000)
    for number in range(0, 40, 4):
        large = [Outgoing(f"m{number + each}", b"x" * 1_000) for each in range(3)]
        by_server_time.publish(TOPIC, [*large, Outgoing(f"m{number + 3}", b"x", Priority.HIGH)])
    lengths: list[int] = []
    positions: list[str] = []
    after = ""
    while True:
        page = by_server_time.admin.browse(TOPIC, after=after, limit=100, newest_first=newest_first)
        lengths.append(len(page.entries))
        assert sum(len(entry.body) for entry in page.entries) <= bounds.PAGE_BYTES
        positions += [entry.position for entry in page.entries]
        after = page.next_position
        if not after:
            break
    # Then each page is as long as its bytes allow, nothing is left out, twice or out of order
    assert len(lengths) == 2
    assert 20 <= lengths[0] < 40
    monkeypatch.undo()
    whole = by_server_time.admin.browse(TOPIC, limit=100, newest_first=newest_first)
    assert positions == [entry.position for entry in whole.entries]
    assert len(positions) == 40


def test_a_topic_is_closed_and_deleted_in_a_store_that_is_full(
    transport: Transport, publish: Publish, server: redis.Redis
) -> None:
    """Whoever deletes it makes room."""
    publish(b"x" * 100_000)
    server.config_set("maxmemory", 1)
    try:
        assert transport.publish(TOPIC, [Outgoing("m", b"m")])[0].status is Status.FAILED
        assert isinstance(transport.admin, ClosesTopics)
        transport.admin.close_topic(TOPIC)
        transport.admin.delete_topic(TOPIC)
        assert only_closed(server)
    finally:
        server.config_set("maxmemory", 0)
