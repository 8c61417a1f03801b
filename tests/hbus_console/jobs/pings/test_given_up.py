"""Whose an end without a ``rid`` is, where the run that began last is waited for no longer."""

from __future__ import annotations

import pytest

from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.pings.ping import PingWord
from hbus_console.jobs.services.triggering import cancel_run
from tests.costs import database_work
from tests.hbus_console.jobs.pings.conftest import HOUR, NAME, Bell, MakeBell
from tests.plans import measured, plans

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
START, LOG = PingWord.START, PingWord.LOG
RID = "0189d8a0-0000-4000-8000-000000000001"


@pytest.mark.parametrize("seen", ["swept", "not swept", "cancelled"])
@pytest.mark.parametrize("decided", [True, False], ids=["decided", "before any node"])
def test_an_end_is_of_the_slot_that_waits_where_the_run_before_it_was_given_up(
    bell: Bell, seen: str, decided: bool
) -> None:
    """Its own start was lost, and the run before it has died."""
    died = bell.ping(10, START)
    if seen == "cancelled":
        cancel_run(SYSTEM, NAME, died.pk, "it hangs")
    elif seen == "swept":
        bell.sweep(1_811)
    if decided:
        bell.decide(3_601)
    assert bell.ping(3_700).slot == HOUR + 3_600
    bell.sweep(4_300)
    before = "cancelled" if seen == "cancelled" else "failed"
    assert bell.rows() == [("schedule", 0, before), ("schedule", 3_600, "done")]
    # With no slot that waits it would have been the end of that after all.
    assert bell.ping(4_400).pk == died.pk


def test_an_end_is_of_no_slot_that_waited_before_the_run_that_was_given_up_began(make_bell: MakeBell) -> None:
    bell = make_bell(30, schedule="* * * * *", grace_s=300, timeout_s=20)
    bell.decide(1)
    bell.ping(62, START)
    bell.sweep(83)
    assert bell.ping(90).slot == HOUR + 60
    assert bell.rows() == [("schedule", 0, "claimed"), ("schedule", 60, "failed")]


def test_nor_of_one_that_waits_for_another(make_bell: MakeBell) -> None:
    bell = make_bell()
    died = bell.ping(10, START)
    bell.sweep(1_811)
    bell.ping(3_602, LOG, RID)
    assert bell.ping(3_700).pk == died.pk


def test_a_ping_of_an_end_costs_as_much_after_many_runs_that_never_began_as_after_few(bell: Bell) -> None:
    """A job that tells of its ends alone: of none is it known when it began."""

    def past(number: int, key: str) -> JobRun:
        at_us = (slot := HOUR - 3_600 * (number + 1)) * 1_000_000
        told = {"state": "done", "decided_us": at_us, "ended_us": at_us, "changed_us": at_us}
        return JobRun(job=NAME, version=1, slot=slot, begun_us=at_us if key else None, key=key, **told)

    JobRun.objects.bulk_create((past(number, f"rid {number}" if number % 2 else "") for number in range(5_000)), 500)
    measured("default")
    with plans() as seen, database_work("default") as cost:
        bell.ping(42)
    assert bell.rows()[-1] == ("schedule", 0, "done")
    assert not any("Seq Scan on jobs_jobrun" in plan or "SCAN jobs_jobrun" in plan for plan in seen.of("jobs_jobrun"))
    cost.at_most(15_000)


def test_an_end_after_many_slots_that_were_missed_is_still_of_the_run_that_was_given_up(make_bell: MakeBell) -> None:
    bell = make_bell(30, schedule="* * * * *", grace_s=10, timeout_s=1_800)
    died = bell.ping(1, START)
    for at in range(60, 1_801, 60):
        bell.decide(at)
    bell.sweep(1_830)
    assert len(bell.rows()) == 31
    assert bell.ping(1_840).pk == died.pk
