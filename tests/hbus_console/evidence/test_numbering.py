"""No number that somebody else wrote into the fact stream takes a genuine fact along."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from engine.bus.facts import BusFields
from engine.core.clock import ManualClock
from engine.core.facts import FactBatch
from engine.core.subject import Subject
from hbus_console.evidence import wire
from hbus_console.evidence.collector import FactCollector
from hbus_console.evidence.fact_stream import Entry, FactReader, FactStream, Keys
from hbus_console.evidence.models import Cursor, Notice
from hbus_console.evidence.numbering import Numbering
from hbus_console.messages.models import LedgerEvent

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

AT = 1_790_000_000_000
#: What the installation of these tests has told before, twice the backlog that may wait.
TOLD = 2_000_000


@pytest.fixture
def store(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


@pytest.fixture
def keys(store: redis.Redis, prefix: str) -> Keys:
    """Of a store and a ledger that have seen many facts."""
    found = Keys(prefix)
    store.mset({found.count: TOLD, found.floor: TOLD})
    Cursor.objects.create(name="facts", facts=TOLD)
    return found


@pytest.fixture
def stream(store: redis.Redis, prefix: str, keys: Keys) -> FactStream:
    return FactStream(store, prefix)


@pytest.fixture
def collect(store: redis.Redis, prefix: str) -> Callable[[], None]:
    return FactCollector(FactReader(store, prefix), clock=ManualClock(AT)).tick


@pytest.fixture
def foreign(store: redis.Redis, keys: Keys) -> Callable[[int, bytes], None]:
    """Writes an entry past everything that counts."""
    return lambda number, body: store.xadd(keys.log, {"n": number, "f": body}) and None


def settled(name: str, count: int = 1) -> list[FactBatch]:
    subject = Subject("subscription", "booking.created", "billing")
    ids = [f"{name}.{number}" for number in range(count)]
    return [FactBatch("settled", AT, subject, "n1", count, fields=BusFields(message_id=ids))]


@pytest.mark.parametrize(
    ("number", "body"),
    [
        (number, body)
        for number in (1, TOLD - 1, TOLD + 2, TOLD + 10**6, 10**15)
        for body in (b"x", wire.encode(settled("foreign")))
    ],
    ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else str(value),
)
def test_a_number_that_cannot_be_costs_no_genuine_fact(
    foreign: Callable[[int, bytes], None], stream: FactStream, collect: Callable[[], None], number: int, body: bytes
) -> None:
    # Given an entry whose number nobody counted, read by the keeper
    stream.write(settled("before"))
    collect()
    foreign(number, body)
    collect()
    assert Cursor.objects.get().facts == TOLD + 1
    # When more is written than one keeper reads at once, and then collected
    for number_of in range(11):
        stream.write(settled(f"after{number_of}"))
    collect()
    # Then all of it is booked
    genuine = LedgerEvent.objects.exclude(message_id__startswith="foreign")
    assert genuine.count() == 12
    assert Cursor.objects.get().facts == TOLD + 12
    # And nothing is said to be lost that was not
    assert set(Notice.objects.values_list("count", flat=True)) <= {0}
    assert not Notice.objects.filter(detail__contains="has forgotten").exists()


def test_many_such_numbers_are_told_once_for_what_is_booked_together(
    store: redis.Redis, keys: Keys, stream: FactStream, collect: Callable[[], None]
) -> None:
    for number in range(6):
        store.xadd(keys.log, {"n": number + 1, "f": wire.encode(settled(f"foreign{number}"))})
        stream.write(settled(f"genuine{number}"))
    collect()
    assert LedgerEvent.objects.count() == 12
    notice = Notice.objects.get()
    assert "does not go with" in notice.detail
    assert notice.count == 0


def test_what_a_full_stream_drops_is_counted_from_what_can_be_true(
    store: redis.Redis, prefix: str, keys: Keys, collect: Callable[[], None]
) -> None:
    # Given a stream that may hold ten facts, with foreign entries before the genuine ones, and the keeper away
    stream = FactStream(store, prefix, limit=10)
    for fields in ({"n": 1, "f": b"x"}, {"what": "ever"}, {"n": 10**15, "f": b"x"}):
        store.xadd(keys.log, fields)  # type: ignore[arg-type]
    for number in range(3):
        stream.write(settled(f"early{number}", 4))
    floor = int(store.get(keys.floor) or 0)  # type: ignore[arg-type]
    # Then as many of the oldest are dropped as must be, and no more
    assert floor == TOLD + 4
    # And what is left is booked, and what was dropped is told
    collect()
    assert LedgerEvent.objects.count() == 8
    assert sum(Notice.objects.values_list("count", flat=True)) == 4


def test_the_floor_is_not_lowered_by_a_keeper_that_was_slower_than_the_writer(
    store: redis.Redis, prefix: str, keys: Keys
) -> None:
    store.mset({keys.count: TOLD + 50, keys.floor: TOLD + 30})
    FactReader(store, prefix).forget("0-1", TOLD + 10)
    assert store.get(keys.floor) == str(TOLD + 30).encode()
    # And a cursor beyond all that came in, of a store that was emptied, does not let the stream grow
    FactReader(store, prefix).forget("0-1", TOLD * 2)
    assert store.get(keys.floor) == str(TOLD + 50).encode()


def test_a_store_that_counts_less_than_was_booked_is_followed_from_where_it_is() -> None:
    numbers = Numbering(position=1_000, came_in=60)
    contents = wire.Contents(settled("m", 10))
    told = [numbers.follow(Entry(f"{place}-0", place * 10, contents)) for place in (5, 6)]
    assert [[facts for facts, _ in each] for each in told] == [[0], []]
    assert "emptied" in told[0][0][1]
    assert numbers.position == 60
