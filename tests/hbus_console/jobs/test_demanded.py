"""Every slot that a schedule demands has one row that explains itself; whatever else there is, is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import connection
from pytest_django import Settings

from engine.core.clock import to_rfc3339
from engine.cron.expression import compile_schedule
from engine.cron.slots.steps import RunState
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.demanded import SlotComparison, SlotDemand, compare_slots, demands_of
from hbus_console.jobs.judge import database_time
from hbus_console.jobs.models import Job, JobCursor, JobRun, JobVersion
from hbus_console.jobs.services.jobs import change_job, pause_job
from hbus_console.jobs.undecided import UNDECIDED
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
JOB = "close-of-day"
#: Midnight, and the hours after it.
BEGIN = 1_790_035_200
HOURLY = compile_schedule("0 * * * *")
HOURS = [BEGIN + 3_600 * hour for hour in range(1, 7)]


def row(slot: int, state: RunState = RunState.DONE, reason: str = "", *, part: str = "") -> JobRun:
    us = slot * 1_000_000
    return JobRun.objects.create(
        job=JOB,
        version=1,
        slot=slot,
        part=part,
        state=state,
        reason=reason,
        decided_us=us,
        changed_us=us,
        ended_us=us,
    )


def compared(*, is_over: bool = False) -> SlotComparison:
    return compare_slots(JOB, [SlotDemand(HOURLY, BEGIN, HOURS[-1], is_over)])


def test_rows_that_are_done_under_way_or_explained_are_as_they_should_be() -> None:
    for slot in HOURS[:3]:
        row(slot)
    row(HOURS[3], RunState.SKIPPED, "another run of the job was running")
    row(HOURS[4], RunState.FAILED, "ValueError: no such hotel")
    row(HOURS[5], RunState.RUNNING)
    # What lies outside of it, and what somebody triggered, is nobody's slot.
    row(BEGIN)
    JobRun.objects.create(
        job=JOB, version=1, slot=BEGIN + 7, kind=JobRun.Kind.MANUAL, state=RunState.DONE, decided_us=1, changed_us=1
    )
    found = compared()
    assert (found.demanded, found.done, found.open, found.faults) == (6, 3, 1, [])
    assert found.explained == {
        ("skipped", "another run of the job was running"): 1,
        ("failed", "ValueError: no such hotel"): 1,
    }


def test_a_slot_without_a_row_is_missing() -> None:
    for slot in HOURS[1:]:
        row(slot)
    (fault,) = compared().faults
    assert (fault.what, str(fault)) == ("missing", f"{JOB} at 2026-09-22T01:00:00.000Z: it has no row")


def test_a_slot_with_two_rows_is_doubled() -> None:
    for slot in HOURS:
        row(slot)
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX one_run_of_a_slot")
    row(HOURS[2])
    found = compared()
    assert [(fault.what, fault.slot, fault.says) for fault in found.faults] == [("doubled", HOURS[2], "it has 2 rows")]
    assert found.done == 6


def test_of_a_divided_slot_each_part_has_one_row_and_the_worst_tells_of_it() -> None:
    for slot in HOURS[2:]:
        row(slot)
    for part, state in (("0/3", RunState.DONE), ("1/3", RunState.FAILED), ("2/3", RunState.DONE)):
        row(HOURS[0], state, "exit code 1" if state == RunState.FAILED else "", part=part)
    for part in ("0/3", "2/3"):
        row(HOURS[1], part=part)
    found = compared()
    assert [(each.slot, each.what, each.says) for each in found.faults] == [
        (HOURS[1], "missing", "it has rows of 2 of 3 shards")
    ]
    assert (found.demanded, found.done, found.explained) == (6, 5, {("failed", "exit code 1"): 1})


@pytest.mark.parametrize(
    ("state", "is_over", "told"),
    [
        (RunState.SKIPPED, False, 1),
        (RunState.LOST, False, 1),
        (RunState.CLAIMED, False, 0),
        (RunState.CLAIMED, True, 1),
        (RunState.RUNNING, True, 1),
    ],
)
def test_a_row_that_is_neither_done_nor_says_why_is_unexplained(state: RunState, is_over: bool, told: int) -> None:
    row(HOURS[0], state)
    for slot in HOURS[1:]:
        row(slot)
    found = compared(is_over=is_over)
    assert (found.count("unexplained"), len(found.faults)) == (told, told)


def test_a_row_at_an_instant_that_the_schedule_does_not_name_is_invented() -> None:
    for slot in (*HOURS, HOURS[0] + 60):
        row(slot)
    assert [fault.what for fault in compared().faults] == ["invented"]


@pytest.fixture
def job(make_job: MakeJob) -> Job:
    """Made at BEGIN, hourly, decided up to the sixth hour; all that is kept is looked at."""
    made = make_job("http", "https://1.1.1.1/")
    change_job(SYSTEM, JOB, {"schedule": "0 * * * *"}, "a test")
    JobVersion.objects.filter(number=1).delete()
    changed_at(2, BEGIN)
    decided_upto(HOURS[-1])
    return made


@pytest.fixture(autouse=True)
def _kept(settings: Settings) -> None:
    settings.HBUS_RUN_DAYS = 36_500


def changed_at(number: int, at: int) -> None:
    JobVersion.objects.filter(number=number).update(made_at=datetime.fromtimestamp(at, tz=UTC))


def decided_upto(at: int) -> None:
    JobCursor.objects.filter(job=JOB).update(at=at)


def demanded() -> list[list[int]]:
    return [list(demand.slots()) for demand in demands_of(Job.objects.get(name=JOB))]


def test_a_job_demands_slots_from_when_it_was_made_to_where_they_are_decided(job: Job) -> None:
    assert demanded() == [HOURS]
    decided_upto(HOURS[2] + 5)
    assert demanded() == [HOURS[:3]]
    # A slot at the very second that it was made: nobody can say.
    changed_at(2, HOURS[0])
    assert demanded() == [HOURS[1:3]]


def test_each_schedule_holds_as_long_as_it_was_the_jobs(job: Job) -> None:
    pause_job(SYSTEM, JOB, "what changes nothing of when")
    changed_at(3, HOURS[0] + 60)
    change_job(SYSTEM, JOB, {"schedule": "30 * * * *"}, "another time")
    changed_at(4, HOURS[2] + 60)
    decided_upto(HOURS[4])
    assert demanded() == [HOURS[:3], [HOURS[2] + 1_800, HOURS[3] + 1_800]]


def test_one_row_speaks_for_those_that_a_change_left_out(job: Job) -> None:
    row(HOURS[0])
    rest = f"nor those after it until {to_rfc3339(HOURS[4] * 1_000)}, which have no row of their own"
    row(HOURS[1], RunState.SKIPPED, f"{UNDECIDED}, {rest}")
    found = compare_slots(JOB, demands_of(job))
    # And no longer than it says.
    assert [(fault.slot, fault.what) for fault in found.faults] == [(HOURS[5], "missing")]
    assert (found.done, sum(found.explained.values())) == (1, 4)


def test_what_may_have_been_removed_is_not_missed(job: Job, settings: Settings) -> None:
    settings.HBUS_RUN_DAYS = int((database_time() - HOURS[2]) / 86_400)
    assert all(slot > HOURS[2] for slots in demanded() for slot in slots)
    settings.HBUS_RUN_DAYS, settings.HBUS_RUN_MAX = 36_500, 2
    for slot in HOURS:
        row(slot)
    assert demanded() == [[HOURS[-1]]]


def test_a_job_without_a_cursor_demands_nothing(job: Job) -> None:
    JobCursor.objects.all().delete()
    assert demanded() == []
