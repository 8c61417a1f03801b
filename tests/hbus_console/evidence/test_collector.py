from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
import redis
from prometheus_client import REGISTRY

from engine.bus.facts import Fact, batches
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from hbus_console import metrics
from hbus_console.evidence.collector import READ_ENTRIES, FactCollector
from hbus_console.evidence.fact_stream import FactReader, FactStream, Keys
from hbus_console.evidence.models import Cursor, Notice
from hbus_console.messages.models import FlowRollup, FlowSample, LedgerEvent, LedgerMessage

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

AT = 1_790_000_000_000
_numbers = itertools.count()


@pytest.fixture
def store(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


@pytest.fixture
def stream(store: redis.Redis, prefix: str) -> FactStream:
    return FactStream(store, prefix)


@pytest.fixture
def collector(store: redis.Redis, prefix: str) -> FactCollector:
    return FactCollector(FactReader(store, prefix), count=metrics.count, clock=ManualClock(AT))


def published(message_id: str = "", **more: Any) -> Fact:
    values: dict[str, Any] = {
        "topic": "booking.created",
        "message_id": message_id or f"m{next(_numbers)}",
        "source": "/tests",
        "type": "booking.created",
        "position": "1-0",
        **more,
    }
    return Fact("published", AT, **values)


def tell(stream: FactStream, *facts: Fact) -> None:
    stream.write(batches(facts))


def test_a_life_becomes_one_message_and_its_events(stream: FactStream, collector: FactCollector) -> None:
    tell(
        stream,
        published("m1", key="b/1", correlation_id="c1", causation_id="m0", size=214, duration_us=1_100),
        Fact(
            "retried",
            AT + 5,
            topic="booking.created",
            subscription="billing",
            message_id="m1",
            attempt=1,
            duration_us=9_000,
            due_ms=AT + 2_000,
            node="n1",
            error="Timeout: 10 s",
            fingerprint="ab12",
        ),
        Fact("settled", AT + 2_100, topic="booking.created", subscription="billing", message_id="m1", attempt=2),
    )
    collector.tick()

    message = LedgerMessage.objects.get()
    assert (message.message_id, message.key, message.correlation_id, message.causation_id) == ("m1", "b/1", "c1", "m0")
    assert (message.size, message.stored_us, message.published_ms, message.position) == (214, 1_100, AT, "1-0")
    events = list(LedgerEvent.objects.order_by("at_ms").values_list("kind", "attempt", "due_ms", "error"))
    assert events == [("retried", 1, AT + 2_000, "Timeout: 10 s"), ("settled", 2, 0, "")]


def test_flow_adds_up_over_batches_and_counts_first_attempts(stream: FactStream, collector: FactCollector) -> None:
    for attempt in (1, 1, 2):
        tell(
            stream,
            published(),
            Fact(
                "settled",
                AT + 1,
                topic="booking.created",
                subscription="billing",
                message_id="x",
                attempt=attempt,
                duration_us=100,
            ),
        )
        collector.tick()

    topic = FlowSample.objects.get(subscription="")
    billing = FlowSample.objects.get(subscription="billing")
    assert (topic.topic, topic.published, topic.bucket_ms) == ("booking.created", 3, AT)
    assert (billing.settled, billing.settled_first, billing.duration_us) == (3, 2, 300)


def test_of_many_facts_each_is_booked_and_counted_once(stream: FactStream, collector: FactCollector) -> None:
    """A count that is wrong by one in some hundreds shows in no test of a few."""
    many, part = 4_000, 400
    for start in range(0, many, part):
        names = [f"many{number}" for number in range(start, start + part)]
        place = {"topic": "booking.created", "subscription": "billing", "attempt": 1}
        tell(stream, *(published(name) for name in names))
        tell(stream, *(Fact("settled", AT + 1, message_id=name, **place) for name in names))
    collector.tick()

    assert (LedgerMessage.objects.count(), LedgerEvent.objects.count()) == (many, many)
    for rows in (FlowSample, FlowRollup):
        topic, billing = rows.objects.get(subscription=""), rows.objects.get(subscription="billing")
        assert (topic.published, billing.settled, billing.settled_first) == (many, many, many)


def test_a_time_that_no_sum_holds_ends_no_counting(stream: FactStream, collector: FactCollector) -> None:
    # Given rows of a topic's flow that can take nothing more
    def settle(name: str) -> None:
        one = Fact("settled", AT, topic="booking.created", subscription="billing", message_id=name, duration_us=2**62)
        tell(stream, one)
        collector.tick()

    settle("m1")
    for rows in (FlowSample, FlowRollup):
        rows.objects.update(duration_us=2**63 - 1)
    # When more comes
    settle("m2")
    # Then it is counted, and the rows are still what a database holds
    for row in (FlowSample.objects.get(), FlowRollup.objects.get()):
        assert (row.settled, row.duration_us) == (2, 2**63 - 1)
    assert not Notice.objects.exists()


def test_nothing_is_booked_twice(stream: FactStream, collector: FactCollector) -> None:
    tell(stream, published("m1"), Fact("settled", AT, topic="t", subscription="s", message_id="m1"))
    collector.tick()
    collector.tick()
    assert LedgerEvent.objects.count() == 1
    assert FlowSample.objects.get(subscription="s").settled == 1


def test_a_crash_after_the_commit_books_nothing_twice(
    stream: FactStream, store: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a keeper that dies between its commit and telling the store
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    tell(stream, published("m1"), Fact("settled", AT, topic="t", subscription="s", message_id="m1"))
    dying = FactReader(store, prefix)
    monkeypatch.setattr(dying, "forget", die)
    with pytest.raises(KeyboardInterrupt):
        FactCollector(dying).tick()
    # When the next one starts
    FactCollector(FactReader(store, prefix)).tick()
    # Then each fact is there once
    assert LedgerEvent.objects.count() == 1


def test_what_happens_to_a_message_that_cannot_be_named_is_told_with_its_place(
    stream: FactStream, collector: FactCollector
) -> None:
    where: dict[str, Any] = {"topic": "t", "subscription": "s", "node": "c1"}
    tell(
        stream,
        Fact("lease_lost", AT, **where, position="7-0", detail="the lease ran out"),
        Fact("lease_lost", AT + 1, **where, message_id="m1", position="8-0"),
        Fact("dead", AT + 2, **where, position="9-0", error="MalformedEnvelope: no JSON"),
    )
    collector.tick()
    assert LedgerEvent.objects.get().message_id == "m1"
    assert list(Notice.objects.order_by("at_ms").values_list("kind", "topic", "subscription", "count", "detail")) == [
        ("lease_lost", "t", "s", 1, "message at 7-0 without a readable name: the lease ran out"),
        ("dead", "t", "s", 1, "message at 9-0 without a readable name: MalformedEnvelope: no JSON"),
    ]


def test_the_later_of_two_collectors_books_nothing(
    stream: FactStream, collector: FactCollector, store: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(stream, published("m1"), Fact("settled", AT, topic="t", subscription="s", message_id="m1"))
    slow = FactReader(store, prefix)
    read = slow.read

    def overtaken(after: str, limit: int) -> Any:
        entries = read(after, limit)
        collector.tick()
        return entries

    monkeypatch.setattr(slow, "read", overtaken)
    with pytest.raises(Unavailable, match="Another keeper"):
        FactCollector(slow).tick()
    assert LedgerEvent.objects.count() == 1


def test_a_batch_repeated_after_a_lost_answer_is_there_once(stream: FactStream, collector: FactCollector) -> None:
    batch = batches([Fact("settled", AT, topic="t", subscription="s", message_id="m1")])
    stream.write(batch)
    stream.write(batch)
    collector.tick()
    assert LedgerEvent.objects.count() == 1


def test_what_the_stream_had_to_drop_is_counted(store: redis.Redis, prefix: str, collector: FactCollector) -> None:
    before = REGISTRY.get_sample_value("hbus_facts_dropped_total") or 0
    stream = FactStream(store, prefix, limit=10)
    for _ in range(5):
        tell(stream, *[published() for _ in range(4)])
    collector.tick()

    assert LedgerMessage.objects.count() == 8
    notice = Notice.objects.get()
    assert (notice.kind, notice.count) == ("facts_dropped", 12)
    assert REGISTRY.get_sample_value("hbus_facts_dropped_total") == before + 12
    # And later gaps are counted from there
    tell(stream, published())
    collector.tick()
    assert Notice.objects.count() == 1


def test_booked_facts_leave_the_store(
    store: redis.Redis, prefix: str, stream: FactStream, collector: FactCollector
) -> None:
    for _ in range(50):
        tell(stream, published())
    collector.tick()
    assert store.xlen(Keys(prefix).log) <= 1
    assert LedgerMessage.objects.count() == 50


def test_an_emptied_store_is_noticed_and_booking_goes_on(
    store: redis.Redis, prefix: str, stream: FactStream, collector: FactCollector
) -> None:
    for _ in range(3):
        tell(stream, published())
    collector.tick()
    keys = Keys(prefix)
    store.delete(keys.log, keys.count, keys.floor)
    tell(stream, published())
    collector.tick()
    assert LedgerMessage.objects.count() == 4
    assert "emptied" in Notice.objects.get().detail


def test_a_store_whose_clock_went_back_does_not_stop_the_booking(
    store: redis.Redis, prefix: str, stream: FactStream, collector: FactCollector
) -> None:
    tell(stream, published())
    collector.tick()
    # Given a cursor ahead of everything the store will number from now on
    Cursor.objects.update(entry="99999999999999-0")
    collector.tick()
    tell(stream, published())
    collector.tick()
    assert LedgerMessage.objects.count() == 2
    assert "went back" in Notice.objects.get().detail


def test_unreadable_bytes_are_reported_and_passed(
    store: redis.Redis, prefix: str, stream: FactStream, collector: FactCollector
) -> None:
    store.xadd(Keys(prefix).log, {"n": 1, "f": b"\xc1 not msgpack"})
    tell(stream, published())
    collector.tick()
    assert LedgerMessage.objects.count() == 1
    assert "unreadable" in Notice.objects.first().detail  # type: ignore[union-attr]


def test_an_unreadable_entry_is_told_once_with_what_it_held(
    store: redis.Redis, prefix: str, stream: FactStream, collector: FactCollector
) -> None:
    # Given an entry of which three facts are readable no more, and one of which a part is
    tell(stream, published())
    keys = Keys(prefix)
    store.xadd(keys.log, {"n": store.incrby(keys.count, 3), "f": b"\xc1 not msgpack"})
    tell(stream, published())
    store.xadd(keys.log, {"n": store.incrby(keys.count, 2), "f": msgspec.msgpack.encode([2, [None]])})
    tell(stream, published())
    # When they are collected
    collector.tick()
    # Then each is told once, with how many facts it held
    notices = list(Notice.objects.order_by("pk"))
    assert [notice.count for notice in notices] == [3, 2]
    assert all("unreadable" in notice.detail for notice in notices)
    assert LedgerMessage.objects.count() == 3


@pytest.mark.parametrize("position", ["7-0", ""])
@pytest.mark.parametrize("early_first", [True, False])
def test_a_delayed_message_has_one_row_with_the_position_it_got(
    stream: FactStream, collector: FactCollector, early_first: bool, position: str
) -> None:
    """nsqd tells no position of what it takes."""
    accepted = Fact("delayed", AT - 9_000, topic="booking.created", message_id="m1", source="/tests", due_ms=AT)
    appended = published("m1", position=position, due_ms=AT, duration_us=900)
    for fact in (accepted, appended) if early_first else (appended, accepted):
        tell(stream, fact)
        collector.tick()
    message = LedgerMessage.objects.get()
    assert (message.position, message.published_ms, message.due_ms, message.waits) == (position, AT, AT, False)
    assert LedgerEvent.objects.get().kind == "delayed"


def test_without_the_ledger_only_flow_and_notices_are_kept(store: redis.Redis, prefix: str, stream: FactStream) -> None:
    tell(
        stream,
        published(),
        Fact("settled", AT, topic="t", subscription="s", message_id="m"),
        Fact("group_lost", AT, topic="t", subscription="s", detail="gone"),
    )
    FactCollector(FactReader(store, prefix), per_message=False).tick()
    assert (LedgerMessage.objects.count(), LedgerEvent.objects.count()) == (0, 0)
    assert FlowSample.objects.count() == 2
    assert Notice.objects.get().kind == "group_lost"


def test_texts_too_long_for_a_column_are_cut(stream: FactStream, collector: FactCollector) -> None:
    tell(
        stream,
        published("m1", key="k\x00" * 300),
        Fact("dead", AT, topic="t", subscription="s", message_id="m1", error="e" * 9_000),
    )
    collector.tick()
    assert len(LedgerMessage.objects.get().key) <= 200
    assert "\x00" not in LedgerMessage.objects.get().key
    assert len(LedgerEvent.objects.get().error) == 500


def test_a_store_that_is_away_raises_and_is_read_on_later(own_store: Any, prefix: str) -> None:
    client = redis.Redis.from_url(own_store.url, retry=None, socket_connect_timeout=1)
    tell(FactStream(client, prefix), published())
    own_store.stop()
    collector = FactCollector(FactReader(client, prefix))
    with pytest.raises(Unavailable):
        collector.tick()
    own_store.start()
    collector.tick()
    assert LedgerMessage.objects.count() == 1


def of_ms() -> int:
    return Cursor.objects.get().at_ms


def test_it_notes_until_when_all_is_booked_though_nothing_comes(
    store: redis.Redis, stream: FactStream, prefix: str
) -> None:
    clock = ManualClock(AT)
    collector = FactCollector(FactReader(store, prefix), clock=clock)
    collector.tick()
    assert of_ms() == AT
    clock.advance(1)
    collector.tick()
    assert of_ms() == AT, "not with each of the four looks a second"
    clock.advance(10)
    collector.tick()
    assert of_ms() == AT + 11_000


def test_while_more_waits_than_one_round_takes_it_has_booked_until_what_it_took(
    store: redis.Redis, stream: FactStream, prefix: str
) -> None:
    seconds, micros = store.time()
    began_ms = seconds * 1_000 + micros // 1_000
    for _ in range(READ_ENTRIES + 1):
        tell(stream, published())
    clock = ManualClock(began_ms + 600_000)
    collector = FactCollector(FactReader(store, prefix), clock=clock)
    collector.step()
    assert began_ms <= of_ms() < began_ms + 500_000
    collector.step()
    assert of_ms() == began_ms + 600_000
