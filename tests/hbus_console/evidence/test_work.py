"""No entry of the fact stream, whoever wrote it, costs the keeper more than its bytes do."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import redis

from engine.bus.facts import BusFields
from engine.core.clock import ManualClock
from engine.core.facts import FactBatch
from engine.core.subject import Subject
from hbus_console.evidence import salvage, wire
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.collector import FactCollector
from hbus_console.evidence.fact_stream import FactReader, Keys
from hbus_console.evidence.models import Notice
from hbus_console.messages import projection
from hbus_console.messages.models import LedgerEvent

AT = 1_790_000_000_000
pack = msgspec.msgpack.encode


def work(do: Callable[[], Any]) -> int:
    """How many calls ``do`` makes, of functions and of generators going on."""
    calls = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return calls


def one(number: int, **changed: Any) -> list[Any]:
    """A batch of one fact as it lies in the store, some of it changed."""
    whole = {
        "kind": "settled", "at_ms": AT, "subject": ["subscription", "a.b", "g"], "node": "n", "count": 1,
        "correlation_id": "", "detail": "", "fields": [f"m{number}"], **changed,
    }  # fmt: skip
    return list(whole.values())


def rows(count: int) -> bytes:
    """Facts of an undeclared kind as the release before columns wrote them."""
    return pack([["hacked", AT, "t", f"g{number}", "m"] for number in range(count)])


@pytest.mark.parametrize(
    "entry",
    [
        lambda count: pack([wire.FORM, [one(number) for number in range(count)]]),
        lambda count: pack([wire.FORM, [None] * count]),
        lambda count: pack([wire.FORM, [one(number, fields=[["m1", "m2"]]) for number in range(count)]]),
        rows,
    ],
    ids=["small batches", "nothing", "columns of another length", "rows of the release before"],
)
def test_twice_the_entry_is_at_most_twice_the_work(entry: Callable[[int], bytes]) -> None:
    single, double = entry(500), entry(1_000)
    wire.decode(double)
    assert work(lambda: wire.decode(double)) < 2.1 * work(lambda: wire.decode(single))


def test_an_entry_of_more_batches_than_facts_is_not_looked_at() -> None:
    body = pack([wire.FORM, [one(0)] * (wire.MOST_BATCHES + 1)])

    def decode() -> None:
        with pytest.raises(ValueError, match="length <= 20000"):
            wire.decode(body)

    assert work(decode) < 1_000


@pytest.mark.parametrize("fill", [None, one(0, kind="hacked"), one(0, subject=["topic", "a b", ""])])
def test_an_entry_that_goes_on_unreadable_is_given_up(fill: Any) -> None:
    # Given more that cannot be read than is ever told, and behind it what can
    found = wire.decode(pack([wire.FORM, [one(0), *[fill] * 5_000, one(1)]]))
    # Then the first is there, and the rest is one loss of nobody knows how many
    assert found.batches == wire.decode(pack([wire.FORM, [one(0)]])).batches
    assert len(found.lost) == wire.MOST_LOST + 1
    assert found.lost[-1] == (0, "the last 4,901 of its 5,002 batches are given up")


def test_what_is_beyond_the_facts_of_an_entry_is_given_up_together() -> None:
    half = one(0, count=wire.MOST_FACTS // 2 + 1, fields=["m"])
    found = wire.decode(pack([wire.FORM, [half, half, half, one(1)]]))
    assert [batch.count for batch in found.batches] == [wire.MOST_FACTS // 2 + 1]
    assert found.lost == [(0, "the last 3 of its 4 batches are given up")]


@pytest.mark.parametrize("place", ["at_ms", "correlation_id", "detail", "fields"])
def test_no_column_is_read_that_is_longer_than_an_entry_has_facts(place: str) -> None:
    column: list[Any] = [AT if place == "at_ms" else ""] * (wire.MOST_FACTS + 1)
    found = wire.decode(pack([wire.FORM, [one(0, **{place: [column] if place == "fields" else column})]]))
    ((_, why),) = found.lost
    assert "length <= 20000" in why


def test_unreadable_rows_of_the_release_before_are_counted_and_the_first_told() -> None:
    good = ["settled", AT, "t", "g", "m1"]
    found = wire.decode(pack([good, *[None] * 300, *[["hacked", AT, "t", f"g{n}", "m"] for n in range(300)]]))
    assert (len(found.batches), found.count) == (1, 601)
    assert len(found.lost) <= wire.MOST_LOST + 2


def test_twice_the_batches_are_at_most_twice_the_work_to_make_rows_of() -> None:
    def book(count: int) -> Callable[[], None]:
        batches = wire.decode(pack([wire.FORM, [one(number) for number in range(count)]])).batches
        return lambda: Booking().add(batches)

    book(1_000)()
    assert work(book(1_000)) < 2.1 * work(book(500))


def test_a_text_that_a_batch_shares_is_not_copied_for_each_of_its_facts() -> None:
    # Given many facts of messages that cannot be named, all at one place with a name of a megabyte
    where, long = Subject("subscription", "a.b", "g"), "x" * 2**20
    batch = FactBatch("dead", AT, where, "n", 2_000, "", long, fields=BusFields(position=long))
    # When rows are made of them
    tracemalloc.start()
    try:
        Booking().add([batch])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Then these hold what the columns take of it
    assert most < 16 * 2**20


@pytest.mark.django_db(databases=["default", "ledger"])
def test_what_is_refused_among_many_batches_is_found_in_few_tries(
    redis_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an entry of a thousand batches, and a projection that lets a number through which no database holds
    monkeypatch.setattr(projection, "numbers", lambda column, count, _: [column << 4 if column > 1 else column] * count)
    bad = one(700, fields=["m700", "", "", "", "", "", "", 2**62])
    body = pack([wire.FORM, [bad if number == 700 else one(number) for number in range(1_000)]])
    store = redis.Redis.from_url(redis_url)
    store.set(Keys(prefix).count, 1_000)
    store.xadd(Keys(prefix).log, {"n": 1_000, "f": body})
    collector = FactCollector(FactReader(store, prefix), clock=ManualClock(AT))
    tried: list[int] = []
    refusal = salvage._refusal
    monkeypatch.setattr(salvage, "_refusal", lambda facts, each: (tried.append(len(facts)), refusal(facts, each))[1])
    # When it is collected
    collector.tick()
    # Then all the others are booked, and finding it took a few tries and not one for each
    assert LedgerEvent.objects.count() == 999
    assert Notice.objects.get().count == 1
    assert len(tried) < 30
