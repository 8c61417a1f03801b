"""The form of facts in the store: what is written is read, what older releases wrote too, and nothing else harms."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import redis
from django.db import connections
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from engine.bus.facts import BusFields, Fact, batches, facts_of
from engine.core.clock import LATEST_MS, ManualClock
from engine.core.facts import FactBatch
from engine.core.subject import Subject
from hbus_console import metrics
from hbus_console.evidence import salvage, wire
from hbus_console.evidence.collector import FactCollector
from hbus_console.evidence.fact_stream import FactReader, FactStream, Keys
from hbus_console.evidence.models import Notice
from hbus_console.messages import projection
from hbus_console.messages.models import FlowSample, LedgerEvent, LedgerMessage

AT = 1_790_000_000_000
pack = msgspec.msgpack.encode

#: Six facts as the release before columns (e19b897) packed them.
ROWS = base64.b64decode(
    "ltwAFKlwdWJsaXNoZWTPAAABoMRQbACvYm9va2luZy5jcmVhdGVkoKJtMaNiLzGiYzGibTDZIGFiYWJhYmFiYWJhYmFiYWJhYmFi"
    "YWJhYmFiYWJhYmFir2Jvb2tpbmcuY3JlYXRlZKYvdGVzdHOjMS0wAM0ETMzWAKV3ZWItMaCgoNwAFKdyZXRyaWVkzwAAAaDEUGwF"
    "r2Jvb2tpbmcuY3JlYXRlZKdiaWxsaW5nom0xoKCgoKCgoAHNIygAzwAAAaDEUHPQom4xrVRpbWVvdXQ6IDEwIHOkYWIxMqDcABSn"
    "c2V0dGxlZM8AAAGgxFB0NK9ib29raW5nLmNyZWF0ZWSnYmlsbGluZ6JtMaCgoKCgoKACzQK8AACibjGgoKDcABSqZ3JvdXBfbG9z"
    "dM8AAAGgxFB0mK9ib29raW5nLmNyZWF0ZWSnYmlsbGluZ6CgoKCgoKCgAAAAAKJuMaCgqW1hZGUgYW5ld9wAFK1mYWN0c19kcm9w"
    "cGVkzwAAAaDEUHT8oKCgoKCgoKCgoAAAKACgoKCwNDAgZmFjdHMgZHJvcHBlZNwAFKpzdG9yZV9sb3N0zwAAAaDEUHVgoKCgoKCg"
    "oKCgoAAAAACoa2VlcGVyLTGgoKRhd2F5"
)


def settled(count: int, **columns: Any) -> FactBatch:
    subject = Subject("subscription", "booking.created", "billing")
    ids = [f"m{number}" for number in range(count)]
    return FactBatch("settled", AT, subject, "n1", count, fields=BusFields(**{"message_id": ids, **columns}))


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


def one(**changed: Any) -> list[Any]:
    """A batch as it lies in the store, some of it changed."""
    whole = {
        "kind": "settled", "at_ms": AT, "subject": ["subscription", "a.b", "g"], "node": "n", "count": 2,
        "correlation_id": "", "detail": "", "fields": [["m1", "m2"]], **changed,
    }  # fmt: skip
    return list(whole.values())


def test_what_is_written_is_read() -> None:
    written = [settled(3, attempt=[1, 2, 1], duration_us=7), Fact("store_lost", AT, detail="away").batch()]
    found = wire.decode(wire.encode(written))
    assert found.batches == written
    assert (found.count, found.lost) == (4, [])


TEXT = st.text(max_size=20)


@given(
    st.lists(
        st.builds(
            Fact,
            st.sampled_from(["settled", "published", "retried", "group_lost"]),
            st.integers(0, LATEST_MS),
            topic=st.sampled_from(["a", "b.c", ""]),
            subscription=st.just(""),
            message_id=TEXT,
            key=TEXT,
            attempt=st.integers(0, 9),
            error=TEXT,
            node=TEXT,
            detail=TEXT,
        ),
        min_size=1,
        max_size=30,
    )
)
def test_facts_keep_every_value_as_columns_and_on_the_wire(facts: list[Fact]) -> None:
    found = list(facts_of(wire.decode(wire.encode(batches(facts))).batches))
    if any("\ud800" <= letter <= "\udfff" for fact in facts for letter in fact.key + fact.error + fact.message_id):
        assert len(found) == len(facts)
    else:
        assert sorted(map(repr, found)) == sorted(map(repr, facts))
    # Those about one subject, by one node, stay in their order
    for place in {(fact.subject, fact.node) for fact in facts}:
        mine = [fact.at_ms for fact in facts if (fact.subject, fact.node) == place]
        assert [fact.at_ms for fact in found if (fact.subject, fact.node) == place] == mine or len(found) == len(facts)


def test_what_a_batch_shares_is_said_once() -> None:
    alike = [Fact("settled", AT, "t", "g", f"m{n}", attempt=1, node="n1") for n in range(100)]
    (batch,) = batches(alike)
    assert (batch.count, batch.at_ms) == (100, AT)
    assert isinstance(batch.fields, BusFields)
    assert (batch.fields.attempt, batch.fields.key) == (1, "")
    assert len(wire.encode([batch])) < 100 * 5 + 100


def test_what_the_release_before_columns_wrote_is_read() -> None:
    found = wire.decode(ROWS)
    assert (found.count, found.lost) == (6, [])
    facts = list(facts_of(found.batches))
    assert sorted(fact.kind for fact in facts) == [
        "facts_dropped", "group_lost", "published", "retried", "settled", "store_lost",
    ]  # fmt: skip
    (dead,) = [fact for fact in facts if fact.kind == "retried"]
    assert (dead.topic, dead.subscription, dead.message_id, dead.attempt) == ("booking.created", "billing", "m1", 1)
    assert (dead.error, dead.fingerprint, dead.due_ms, dead.node) == ("Timeout: 10 s", "ab12", AT + 2_000, "n1")
    assert [fact.size for fact in facts if fact.kind == "facts_dropped"] == [40]


def test_of_rows_that_the_release_before_wrote_each_is_read_by_itself() -> None:
    good = [Fact("settled", AT, "t", "g", "m1"), Fact("settled", AT, "t", "g", "m2")]
    bad = [Fact("settled", 2**62, "t", "g", "m3"), Fact("settled", AT, "a b", "g", "m4"), ["settled"], None]
    found = wire.decode(pack([good[0], *bad, Fact("hacked", AT, "t", "g", "m5"), good[1]]))
    assert list(facts_of(found.batches)) == good
    assert [count for count, _ in found.lost] == [1] * 5
    assert (found.count, all(why for _, why in found.lost)) == (7, True)


def test_text_that_no_utf8_can_say_costs_a_letter_and_not_the_fact() -> None:
    broken = Fact("dead", AT, "t", "g", "m1", error="No such file: '\udcff.txt'", detail="ok").batch()
    (found,) = facts_of(wire.decode(wire.encode([broken, settled(1)])).batches[:1])
    assert (found.error, found.detail) == ("No such file: '?.txt'", "ok")


@pytest.mark.parametrize(
    "body",
    [b"", b"\xc1", b"\x00", nested(100_000), pack({"a": 1}), pack([3, []]), pack([2]), pack(["2", []]), pack([2, {}]),
     pack([[1, 2]]), b"\x92\x02" + nested(100_000), pack([-1, [one()]]),
     pack([2, [one(), one(fields=msgspec.Raw(nested(100_000)))]])],
    ids=lambda body: f"{body[:8]!r} of {len(body)}",
)  # fmt: skip
def test_what_is_no_entry_raises_one_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"Error|form"):
        wire.decode(body)


HOSTILE: dict[str, Any] = {
    "a column too short": one(fields=[["m1"]]),
    "a column too long": one(at_ms=[AT] * 3),
    "a column of other things": one(fields=[["m1", 2]]),
    "a field of another type": one(fields=[{"a": 1}]),
    "a number beyond all databases": one(at_ms=2**64 - 1),
    "a number below all databases": one(fields=[["m1", "m2"], "", "", "", "", "", "", -(2**63) - 0, [1]]),
    "a moment after all calendars": one(at_ms=253_402_300_800_000),
    "a moment before all": one(at_ms=[AT, -1]),
    "a due time after all calendars": one(fields=[["m1", "m2"], "", "", "", "", "", "", 0, 0, 0, 2**62]),
    "an amount that cannot be added up": one(kind="facts_dropped", subject=None, fields=[2**63 - 1]),
    "no facts": one(count=0),
    "more facts than there can be": one(count=10**12),
    "more facts than an entry has": one(count=wire.MOST_FACTS + 1),
    "a kind nobody declares": one(kind="hacked"),
    "a kind that is no text": one(kind=7),
    "a kind without end": one(kind="k" * 10_000),
    "a subject that is none": one(subject=["topic", "a b", ""]),
    "a subject of a pattern": one(subject=["topic", "*", ""]),
    "a subject as text": one(subject="topic:a"),
    "too few parts": one()[:3],
    "a map": {"kind": "settled"},
    "nothing": None,
    "a small tree": msgspec.Raw(nested(50)),
    "a small tree in its fields": one(fields=msgspec.Raw(nested(50))),
    "bytes for text": one(node=b"n"),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_batch_is_counted_and_its_neighbours_are_read(hostile: Any) -> None:
    good = [msgspec.Raw(pack(one())), msgspec.Raw(pack(one(kind="retried")))]
    found = wire.decode(pack([wire.FORM, [good[0], hostile, good[1]]]))
    assert [batch.kind for batch in found.batches] == ["settled", "retried"]
    ((count, why),) = found.lost
    assert count in (0, 2)
    assert why


def test_no_entry_is_read_beyond_what_an_emitter_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    half = one(count=wire.MOST_FACTS // 2 + 1, fields=["m"])
    found = wire.decode(pack([wire.FORM, [half, half]]))
    assert [batch.count for batch in found.batches] == [wire.MOST_FACTS // 2 + 1]
    assert len(found.lost) == 1
    monkeypatch.setattr(wire, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match="more than an entry has"):
        wire.decode(wire.encode([settled(100)]))


@pytest.fixture
def store(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


@pytest.fixture
def collect(store: redis.Redis, prefix: str) -> Callable[[], None]:
    return FactCollector(FactReader(store, prefix), count=metrics.count, clock=ManualClock(AT)).tick


@pytest.mark.django_db(databases=["default", "ledger"])
def test_an_entry_of_the_release_before_is_booked_between_those_of_this_one(
    store: redis.Redis, prefix: str, collect: Callable[[], None]
) -> None:
    # Given a stream in which the release before has left an entry, and an upgrade
    keys = Keys(prefix)
    store.xadd(keys.log, {"n": 6, "f": ROWS})
    store.set(keys.count, 6)
    FactStream(store, prefix).write([settled(4)])
    # When the keeper starts
    collect()
    # Then each fact is there once, and nothing is told to be missing but what the old entry told
    assert LedgerMessage.objects.get().message_id == "m1"
    assert LedgerEvent.objects.filter(kind="settled").count() == 5
    assert sorted(Notice.objects.values_list("kind", "count")) == [
        ("facts_dropped", 40), ("group_lost", 0), ("store_lost", 0),
    ]  # fmt: skip


@pytest.mark.django_db(databases=["default", "ledger"])
@pytest.mark.parametrize("number", [b"1e3", b"-1", b"9" * 19, b"9" * 5_000, b"9" * 16, b"", b"\xff"])
def test_no_number_in_the_stream_stops_the_booking(
    store: redis.Redis, prefix: str, collect: Callable[[], None], number: bytes
) -> None:
    store.xadd(Keys(prefix).log, {"n": number, "f": wire.encode([settled(1)])})
    FactStream(store, prefix).write([settled(2)])
    for _ in range(3):
        collect()
    assert LedgerEvent.objects.filter(kind="settled").count() == 3
    assert Notice.objects.get().kind == "facts_dropped"


@pytest.mark.django_db(databases=["default", "ledger"])
def test_hostile_entries_are_told_and_what_surrounds_them_is_booked(
    store: redis.Redis, prefix: str, collect: Callable[[], None]
) -> None:
    # Given values that no column of the database takes as they are, and batches that are none
    odd = settled(
        2, attempt=[-7, 2**62], duration_us=2**63 - 1, size=2**63 - 1, error="\x00" * 9_000, fingerprint="f" * 99
    )
    stream = FactStream(store, prefix)
    stream.write([settled(3)])
    store.xadd(Keys(prefix).log, {"n": 3, "f": pack([wire.FORM, [*HOSTILE.values()]])})
    stream.write([odd])
    stream.write([settled(5)])
    # When they are collected
    collect()
    # Then everything that can be read is there
    assert LedgerEvent.objects.filter(kind="settled").count() == 3 + 2 + 5
    assert FlowSample.objects.get().settled == 10
    assert list(LedgerEvent.objects.filter(error="").values_list("attempt", flat=True)[3:5]) == [0, 2**31 - 1]
    # And of what cannot, the first ones are named
    told = Notice.objects.filter(detail__contains="unreadable")
    assert 1 <= told.count() <= 20


@pytest.mark.django_db(databases=["default", "ledger"])
def test_what_the_database_can_never_take_is_buried_alone(
    store: redis.Redis, prefix: str, collect: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a projection that lets a number through which no database holds
    monkeypatch.setattr(projection, "numbers", lambda column, count, _: [column << 4] * count)
    stream = FactStream(store, prefix)
    for batch in (settled(3), settled(2, attempt=2**62), settled(4)):
        stream.write([batch])
    # When it is collected
    collect()
    # Then its neighbours are booked, and it is counted
    assert LedgerEvent.objects.filter(kind="settled").count() == 7
    notice = Notice.objects.get()
    assert (notice.kind, notice.count) == ("facts_dropped", 2)
    assert "the database refused it" in notice.detail


@pytest.mark.django_db(databases=["default", "ledger"])
def test_one_fact_that_the_database_can_never_take_takes_none_of_its_entry_along(
    store: redis.Redis, prefix: str, collect: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an entry of two batches, and a projection that lets two of its numbers through which no database holds
    monkeypatch.setattr(
        projection, "numbers", lambda column, count, _: column if isinstance(column, list) else [column] * count
    )
    before = REGISTRY.get_sample_value("hbus_facts_dropped_total") or 0
    attempts = [1] * 40
    attempts[7] = attempts[31] = 2**70
    batch = settled(40, attempt=attempts)
    monkeypatch.setattr(wire, "decode", lambda _: wire.Contents([batch, settled(2)]))
    FactStream(store, prefix).write([settled(42)])
    # When it is collected
    collect()
    # Then all others are booked, each once, and the flow counts them
    found = LedgerEvent.objects.filter(kind="settled").values_list("message_id", flat=True)
    assert sorted(found) == sorted([*(f"m{n}" for n in range(40) if n not in (7, 31)), "m0", "m1"])
    assert FlowSample.objects.get().settled == 40
    # And those two are told, also to who watches the metrics
    notice = Notice.objects.get()
    assert (notice.kind, notice.count) == ("facts_dropped", 2)
    refusal = "OverflowError" if connections["ledger"].vendor == "sqlite" else "DataError"
    assert f"the database refused it: {refusal}" in notice.detail
    assert REGISTRY.get_sample_value("hbus_facts_dropped_total") == before + 2


@pytest.mark.django_db(databases=["default", "ledger"])
def test_an_entry_of_nothing_but_refused_facts_is_given_up_after_some_tries(
    store: redis.Redis, prefix: str, collect: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(salvage, "MOST_IN_VAIN", 10)
    monkeypatch.setattr(projection, "numbers", lambda column, count, _: [2**70] * count)
    FactStream(store, prefix).write([settled(300)])

    collect()

    assert Notice.objects.get().count == 300
    assert not LedgerEvent.objects.exists()
