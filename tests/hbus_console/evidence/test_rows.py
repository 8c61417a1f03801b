"""Facts of an engine that has no ledger of its own: each is a row that names its subject."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import redis
from structlog.testing import capture_logs

from engine.core.fact_kinds import FactCatalog, FactCounter, FactKind, Tone
from engine.core.facts import FactBatch, Fields, Numbers, Texts
from engine.core.subject import Subject
from hbus_console.evidence import kinds as declared
from hbus_console.evidence.collector import FactCollector
from hbus_console.evidence.fact_stream import FactReader, FactStream
from hbus_console.evidence.models import Evidence, Notice
from hbus_console.evidence.retention import trim_evidence
from hbus_console.logs import LoggingSink
from hbus_console.registry.declaration import Feature
from hbus_console.registry.loading import features

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

AT = 1_790_000_000_000
JOB = Subject("job", "close-of-day")


class JobFields(Fields, frozen=True, array_like=True, gc=False):
    slot: Texts = ""
    tries: Numbers = 0


def kind(name: str, *, booked: bool = True) -> FactKind:
    return FactKind(name, "it ran", Tone.OK, logging.INFO, FactCounter("Runs.", ("job",)), booked=booked)


CATALOG = FactCatalog("jobs", (kind("toy_run_ended"), kind("toy_looked", booked=False)), JobFields, ("job",))


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another engine, whose declaration is found as those of the features are."""
    found = (*features(), Feature("jobs", facts=(f"{__name__}:CATALOG",)))
    caches = (declared.catalogs, declared.kinds, declared._catalogs_by_kind)
    for cached in caches:
        cached.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(declared, "features", lambda: found)
        yield
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def stream(redis_url: str, prefix: str) -> FactStream:
    return FactStream(redis.Redis.from_url(redis_url), prefix)


def collect(redis_url: str, prefix: str, *, per_message: bool = True) -> None:
    FactCollector(FactReader(redis.Redis.from_url(redis_url), prefix), per_message=per_message).tick()


def test_each_fact_is_a_row_with_its_subject_and_its_own_fields(
    stream: FactStream, redis_url: str, prefix: str
) -> None:
    fields = JobFields(["a\x00" + "s" * 900, "", "2026-11-22T02:00"], 2)
    stream.write(
        [FactBatch("toy_run_ended", [AT, AT + 1, AT + 2], JOB, "jobs-1", 3, ["c1", "c2", "c3"], "done", fields)]
    )
    stream.write([FactBatch("toy_run_ended", AT + 3, fields=JobFields())])
    collect(redis_url, prefix)
    collect(redis_url, prefix)
    rows = list(Evidence.objects.order_by("at_ms"))
    assert [row.at_ms for row in rows] == [AT, AT + 1, AT + 2, AT + 3]
    assert {(row.kind, row.subject, row.node, row.detail) for row in rows[:3]} == {
        ("toy_run_ended", "job:close-of-day", "jobs-1", "done")
    }
    assert [row.correlation_id for row in rows] == ["c1", "c2", "c3", ""]
    assert rows[0].fields == {"slot": "a" + "s" * 498, "tries": 2}
    assert [row.fields for row in rows[1:]] == [{"tries": 2}, {"slot": "2026-11-22T02:00", "tries": 2}, {}]
    assert Subject.parse(rows[0].subject) == JOB


@pytest.mark.parametrize(("name", "per_message"), [("toy_looked", True), ("toy_run_ended", False)])
def test_what_is_only_counted_leaves_no_row(
    stream: FactStream, redis_url: str, prefix: str, name: str, per_message: bool
) -> None:
    stream.write([FactBatch(name, AT, JOB, count=5, fields=JobFields())])
    collect(redis_url, prefix, per_message=per_message)
    assert not Evidence.objects.exists()
    assert not Notice.objects.exists()


def test_the_oldest_rows_go_first_and_the_newest_stay(stream: FactStream, redis_url: str, prefix: str) -> None:
    stream.write([FactBatch("toy_run_ended", [*range(AT, AT + 10)], JOB, count=10, fields=JobFields())])
    collect(redis_url, prefix)
    assert [trim_evidence(4, 5), trim_evidence(4, 5), trim_evidence(4, 5)] == [5, 1, 0]
    assert [row.at_ms for row in Evidence.objects.order_by("at_ms")] == [AT + n for n in range(6, 10)]
    Evidence.objects.all().delete()
    assert trim_evidence(4, 5) == 0


def test_its_log_line_names_the_job() -> None:
    with capture_logs() as lines:
        LoggingSink(_Nothing()).write([FactBatch("toy_run_ended", AT, JOB, fields=JobFields("now"))])
    assert lines == [{"event": "toy_run_ended", "log_level": "info", "at_ms": AT, "job": "close-of-day", "slot": "now"}]


class _Nothing:
    def write(self, facts: object) -> None:
        return
