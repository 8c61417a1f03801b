"""One engine's projection that fails costs its own engine what it cannot book, and nobody else anything."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
import redis
from django.db import DatabaseError, InternalError, OperationalError, connections, transaction

from engine.bus.facts import Fact, batches
from engine.core.clock import ManualClock
from engine.core.fact_kinds import FactCatalog, FactCounter, FactKind, Tone
from engine.core.facts import FactBatch
from engine.core.subject import Subject
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, ScopedRole
from hbus_console.database import is_away
from hbus_console.evidence import booking, salvage
from hbus_console.evidence import kinds as declared
from hbus_console.evidence.collector import FactCollector
from hbus_console.evidence.concerns import concerns
from hbus_console.evidence.fact_stream import FactReader, FactStream, Keys
from hbus_console.evidence.inserting import Insert
from hbus_console.evidence.models import Cursor, Notice
from hbus_console.evidence.rows import EvidenceRows
from hbus_console.messages.models import LedgerMessage
from hbus_console.registry.declaration import Feature
from hbus_console.registry.loading import features
from hbus_console.ui.concern import Look

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

EVERYBODY = Actor("anna", grants=(ScopedRole(Role.ADMIN, "*"),))
AT = 1_790_000_000_000


def catalog(engine: str) -> FactCatalog:
    kind = FactKind(f"{engine}_ended", "it ran", Tone.OK, logging.INFO, FactCounter("Runs."))
    return FactCatalog(engine, (kind,))


JOBS, LIMITS = catalog("jobs"), catalog("limits")
#: What the projections do with a batch when they are to write it; those of a test.
_doing: dict[str, Callable[[FactBatch], None]] = {}


class _Doing:
    def __init__(self, each: bool) -> None:
        self._batches: list[FactBatch] = []

    def add(self, batch: FactBatch) -> None:
        self._batches.append(batch)

    def write(self) -> None:
        for batch in self._batches:
            _doing[self.engine](batch)

    engine = ""


class JobsProjection(_Doing):
    engine = "jobs"


class LimitsProjection(_Doing):
    engine = "limits"


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FactBatch]]:
    """Two more engines, each with a projection, found as those of the features are; returns what limits has written."""
    found = (
        *features(),
        Feature("jobs", facts=(f"{__name__}:JOBS",), projection=f"{__name__}:JobsProjection"),
        Feature("limits", facts=(f"{__name__}:LIMITS",), projection=f"{__name__}:LimitsProjection"),
    )
    caches = (declared.catalogs, declared.kinds, declared._catalogs_by_kind, booking._makers)
    for cached in caches:
        cached.cache_clear()
    written: list[FactBatch] = []
    _doing["limits"] = written.append
    with monkeypatch.context() as patch:
        for module in (declared, booking):
            patch.setattr(module, "features", lambda: found)
        yield written
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def store(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


@pytest.fixture
def stream(store: redis.Redis, prefix: str) -> FactStream:
    return FactStream(store, prefix)


@pytest.fixture
def counted() -> list[FactBatch]:
    """What the collector has told to the metrics."""
    return []


@pytest.fixture
def collector(store: redis.Redis, prefix: str, counted: list[FactBatch]) -> FactCollector:
    return FactCollector(FactReader(store, prefix), count=counted.extend, clock=ManualClock(AT))


def ended(engine: str, name: str = "close-of-day", count: int = 1) -> FactBatch:
    return FactBatch(f"{engine}_ended", AT, Subject("job", name), count=count)


def tell_all(stream: FactStream, jobs: int = 1) -> None:
    """A fact of each engine, and as many of jobs."""
    published = Fact("published", AT, topic="a.b", message_id="m1", source="/tests", type="a.b", position="1-0")
    stream.write([*batches([published]), ended("jobs", count=jobs), ended("limits")])


def no_table(_: FactBatch) -> None:
    Insert("jobsapp_run", ("name",)).run([("close-of-day",)])


def key_error(_: FactBatch) -> None:
    raise KeyError("slot")


def swallowed(_: FactBatch) -> None:
    with transaction.atomic(using="ledger"):
        pass
    transaction.set_rollback(True, using="ledger")


@pytest.mark.parametrize(
    ("fails", "why"), [(no_table, "jobsapp_run"), (key_error, "KeyError"), (swallowed, "caught an error")]
)
def test_a_projection_that_fails_holds_up_no_other_engine(
    stream: FactStream, collector: FactCollector, engines: list[FactBatch], fails: Callable[[FactBatch], None], why: str
) -> None:
    # Given an engine whose projection fails whatever it is given
    _doing["jobs"] = fails
    tell_all(stream)
    # When facts of three engines are collected, and more later
    collector.tick()
    stream.write([ended("limits", "later")])
    collector.tick()
    # Then the others' are booked
    assert LedgerMessage.objects.get().message_id == "m1"
    assert [batch.subject.namespace for batch in engines if batch.subject][-2:] == ["close-of-day", "later"]
    # And what is lost is told, once, with the engine, its number and the reason
    notice = Notice.objects.get()
    assert (notice.kind, notice.count) == ("facts_dropped", 1)
    assert notice.detail.startswith("Of the engine jobs: ")
    assert why in notice.detail


def test_what_a_projection_loses_is_counted_and_calls_for_a_person_by_engine(
    stream: FactStream, collector: FactCollector, counted: list[FactBatch]
) -> None:
    for engine in ("jobs", "limits"):
        _doing[engine] = key_error
    tell_all(stream, jobs=3)
    collector.tick()
    tell_all(stream, jobs=4)
    collector.tick()
    assert sum(batch.fields.amount for batch in counted) == 9  # type: ignore[attr-defined]
    lines = [(line.text, line.note.partition(": ")[0]) for line in concerns(Look(EVERYBODY, AT))]
    assert sorted(lines) == [
        ("2 facts of evidence were dropped", "Of the engine limits"),
        ("7 facts of evidence were dropped", "Of the engine jobs"),
    ]


def test_only_the_facts_that_a_projection_cannot_book_are_lost(stream: FactStream, collector: FactCollector) -> None:
    booked: list[str] = []

    def all_but_one(batch: FactBatch) -> None:
        assert batch.subject
        if batch.subject.namespace == "n7":
            raise KeyError("n7")
        EvidenceRows().add(batch)
        booked.append(batch.subject.namespace)

    _doing["jobs"] = all_but_one
    for start in (0, 10):
        stream.write([ended("jobs", f"n{number}") for number in range(start, start + 10)])
    collector.tick()
    assert set(booked) == {f"n{number}" for number in range(20) if number != 7}
    assert Notice.objects.get().count == 1


def test_a_projection_that_books_nothing_is_asked_some_times_and_not_for_every_fact(
    stream: FactStream, collector: FactCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []
    _doing["jobs"] = lambda batch: tries.append(batch.kind) or key_error(batch)  # type: ignore[func-returns-value]
    for start in (0, 200, 400):
        stream.write([ended("jobs", f"n{number}") for number in range(start, start + 200)])
    collector.tick()
    assert Notice.objects.get().count == 600
    assert len(tries) < 2 * salvage.MOST_IN_VAIN


def test_a_database_that_takes_no_writes_stops_the_cursor_and_loses_nothing(
    stream: FactStream, collector: FactCollector, store: redis.Redis, prefix: str
) -> None:
    """Not the fault of the projection in whose hands it is found."""
    sqlite = connections["ledger"].vendor == "sqlite"

    def read_only(_: FactBatch) -> None:
        with connections["ledger"].cursor() as cursor:
            cursor.execute("PRAGMA query_only = ON" if sqlite else "SET TRANSACTION READ ONLY")
            cursor.execute("DELETE FROM ledger_notice")

    Cursor.objects.create(name="facts")
    _doing["jobs"] = read_only
    tell_all(stream)
    try:
        with pytest.raises(DatabaseError, match=r"readonly|read-only"):
            collector.tick()
    finally:
        if sqlite:
            with connections["ledger"].cursor() as cursor:
                cursor.execute("PRAGMA query_only = OFF")
    assert Cursor.objects.get().entry == "0-0"
    assert not LedgerMessage.objects.exists()
    assert not Notice.objects.exists()
    assert store.xlen(Keys(prefix).log) == 1
    # When it takes them again, all is booked
    _doing["jobs"] = lambda _: None
    collector.tick()
    assert LedgerMessage.objects.get().message_id == "m1"
    assert not Notice.objects.exists()


def _said(error: type[Exception], **of_the_driver: object) -> Exception:
    cause = RuntimeError()
    for name, value in of_the_driver.items():
        setattr(cause, name, value)
    found = error("said")
    found.__cause__ = cause
    return found


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (_said(OperationalError, sqlite_errorcode=5), True),
        (_said(OperationalError, sqlite_errorcode=13), True),
        (_said(OperationalError, sqlite_errorcode=1), False),
        (_said(OperationalError, sqlstate=None), True),
        (_said(OperationalError, sqlstate="57P01"), True),
        (_said(OperationalError, sqlstate="54000"), False),
        (_said(InternalError, sqlstate="25006"), True),
        (_said(InternalError, sqlstate="25P02"), False),
        (_said(DatabaseError, sqlite_errorcode=11), True),
        (KeyError("x"), False),
    ],
)
def test_what_a_database_says_when_it_is_away(error: Exception, away: bool) -> None:
    assert is_away(error) is away
