"""Many cursors are written together by nodes and by who changes a calendar: neither waits for one that waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from engine.cron.slots.steps import Cursor
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.models import Job, JobCursor
from hbus_console.jobs.opening import CursorMove, move_cursors
from hbus_console.jobs.services import calendars
from hbus_console.jobs.services.calendars import change_calendar, create_calendar
from hbus_console.jobs.services.jobs import change_job
from tests.hbus_console.jobs.conftest import MakeJob
from tests.store_servers import until

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
#: As they lie in the table; whoever writes both locks the other one first.
MADE = ("b", "a")


@pytest.fixture(autouse=True)
def jobs(make_job: MakeJob) -> None:
    create_calendar(SYSTEM, "holidays", "12-25", "kept once")
    for name in MADE:
        make_job("http", "https://1.1.1.1/", name, calendars="holidays")


def decide() -> None:
    moves = [CursorMove(Cursor(each.job, 1, each.at), each.at + 1) for each in map(cursor, MADE)]
    with transaction.atomic():
        assert move_cursors(moves) == set(MADE)


def change() -> None:
    assert change_calendar(SYSTEM, "holidays", "12-26", "another day").jobs == 2


def cursor(job: str) -> JobCursor:
    return JobCursor.objects.get(job=job)


def somebody_waits() -> bool:
    with connection.cursor() as asked:
        asked.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(asked.fetchone()[0])


class Other:
    """Whoever locks the two of them, the second when somebody waits for the first."""

    def __init__(self) -> None:
        self.has_first = threading.Event()
        self.error: Exception | None = None

    def lock_both(self) -> None:
        try:
            with transaction.atomic():
                first, second = sorted(MADE)
                JobCursor.objects.select_for_update().get(job=first)
                self.has_first.set()
                if connection.vendor == "postgresql":
                    until("somebody waits", somebody_waits)
                JobCursor.objects.select_for_update().get(job=second)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self.has_first.set()
            connection.close()


@pytest.mark.parametrize("write", [decide, change])
def test_two_that_write_the_same_cursors_do_not_wait_for_each_other(write: Callable[[], None]) -> None:
    other = Other()
    thread = threading.Thread(target=other.lock_both)
    thread.start()
    assert other.has_first.wait(10)
    # SQLite has one writer at a time, and refuses the other in a database that threads share.
    if connection.vendor != "postgresql":
        thread.join(10)
    write()
    thread.join(10)
    assert other.error is None


def test_a_calendar_has_all_its_jobs_locked_before_the_audit_log(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that took it up just before: who changes that one waits for the audit log with the job locked."""
    make_job("http", "https://1.1.1.1/", "late")
    found, locked, told = calendars.calendar, calendars._whole, list[tuple[list[str], int]]()

    def taken_up_meanwhile(name: str, *, lock: bool = False) -> object:
        if lock:
            change_job(SYSTEM, "late", {"calendars": name})
        return found(name, lock=lock)

    def and_tell(some: list[Job], *, lock: bool = False) -> list[Job]:
        if lock:
            told.append(([each.name for each in some], AuditEntry.objects.filter(action="job.calendar_change").count()))
        return locked(some, lock=lock)

    monkeypatch.setattr(calendars, "calendar", taken_up_meanwhile)
    monkeypatch.setattr(calendars, "_whole", and_tell)
    assert change_calendar(SYSTEM, "holidays", "12-26", "another day").jobs == 3
    assert told == [(["a", "b"], 0), (["late"], 0)]
