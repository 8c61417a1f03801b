"""SQLite knows how its tables look, so that it takes the index that finds, and not one that fits all rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hbus_console.deadletters.models import DeadLetter
from hbus_console.jobs.models import JobRun
from hbus_console.keeper.duties import all_duties
from hbus_console.keeper.statistics import WORTH_ROWS, DatabaseStatistics
from tests.costs import database_work
from tests.plans import plans

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

AT = datetime(2026, 11, 20, tzinfo=UTC)


def _letters(number: int) -> None:
    DeadLetter.objects.bulk_create(
        (
            DeadLetter(
                topic="t", subscription="g", message_id=f"m{each}", source="/s", position=str(each), body=b"",
                fingerprint=f"f{each % 900}", attempts=1, first_failed_at=AT, died_at=AT,
            )
            for each in range(number)
        ),
        batch_size=500,
    )  # fmt: skip


def test_ten_letters_are_found_by_their_messages_and_not_by_the_state_that_all_share() -> None:
    _letters(8_000)
    DatabaseStatistics().tick()
    if connection.vendor == "sqlite":
        # As a connection that is opened now would do.
        connection.cursor().execute("ANALYZE sqlite_schema")
    with database_work("default") as cost:
        found = DeadLetter.objects.filter(
            message_id__in=[f"m{each}" for each in range(10)], state=DeadLetter.State.DEAD
        ).values_list("topic", "subscription", "message_id")
        assert len(found) == 10
    cost.at_most(2_000, "of 8,000 letters")


@pytest.mark.parametrize(("letters", "measured"), [(WORTH_ROWS - 1, False), (WORTH_ROWS, True)])
def test_a_large_table_is_measured_on_sqlite_alone(letters: int, measured: bool) -> None:
    """A small one is not: it would mislead for long. PostgreSQL sees to its own, and is left to it."""
    _letters(letters)
    with CaptureQueriesContext(connection) as queries:
        DatabaseStatistics().tick()
    analyzed = [query["sql"] for query in queries if query["sql"].startswith("ANALYZE")]
    assert ('ANALYZE "deadletters_deadletter"' in analyzed) == (measured and connection.vendor == "sqlite")


@pytest.mark.sqlite
def test_all_indexes_of_a_table_agree_how_many_rows_it_has() -> None:
    """As SQLite guesses that from a sample, it takes a list that an index has in order for dearer than reading and
    sorting all there is."""
    slots = range(10_000)
    JobRun.objects.bulk_create(
        (JobRun(job=f"j{at % 90}", version=1, slot=at, state="done", decided_us=1, changed_us=at) for at in slots),
        batch_size=500,
    )
    DatabaseStatistics().tick()
    with connection.cursor() as cursor:
        cursor.execute("SELECT idx, stat FROM sqlite_stat1 WHERE tbl = 'jobs_jobrun'")
        told = {index: int(stat.split()[0]) for index, stat in cursor.fetchall()}
    assert [told[index] for index in ("job_run_newest", "run_newest", "run_changed")] == [10_000] * 3
    assert max(told.values()) == 10_000
    JobRun.objects.update(ended_us=1)
    DatabaseStatistics().tick()
    with plans() as seen:
        list(JobRun.objects.filter(kind="schedule").order_by("-slot", "-pk")[:30])
        # Of which there are none at the time, so that a sample tells nothing of their index.
        list(JobRun.objects.filter(ended_us=None))
    newest, still_open = seen.told
    assert "run_newest" in newest
    assert "job_run_open" in still_open


def test_the_keeper_does_it() -> None:
    assert "database-statistics" in [duty.name for duty in all_duties()]
