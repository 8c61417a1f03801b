"""Old runs go with their logs; those that are young, that go on, or that are the last of their job stay."""

from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from engine.cron.slots.steps import RunState
from hbus_console.jobs import retention
from hbus_console.jobs.models import JobRun, LogPiece
from hbus_console.jobs.retention import RunRetention
from hbus_console.jobs.run_progress import RunProgress

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
DAY = 86_400


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "KEPT_OF_EACH", 2)
    monkeypatch.setattr(retention, "BATCH", 3)


def ran(clock: ManualClock, job: str, days_ago: float, *, goes_on: bool = False) -> JobRun:
    at_s = round(clock.now_ms() / 1000 - days_ago * DAY)
    at_us = at_s * 1_000_000
    state = RunState.RUNNING if goes_on else RunState.DONE
    ended = None if goes_on else at_us
    times = {"decided_us": at_us, "changed_us": at_us, "ended_us": ended}
    run = JobRun.objects.create(job=job, version=1, slot=at_s, state=state, **times)
    LogPiece.objects.create(run=run.pk, seq=1, attempt=1, at_us=at_us, text="x\n")
    RunProgress.objects.create(run=run.pk, epoch=1, attempt=1, at_us=at_us, said={})
    return run


def left() -> list[int]:
    return list(JobRun.objects.order_by("pk").values_list("pk", flat=True))


def test_what_is_older_goes_but_the_last_of_each_job_and_what_goes_on() -> None:
    clock = ManualClock()
    # Before the others: what is young ends a round.
    yearly = [ran(clock, "yearly", 300 - number) for number in range(3)]
    stuck = ran(clock, "often", 99.5, goes_on=True)
    often = [ran(clock, "often", 100 - number) for number in range(12)]
    young = [ran(clock, "often", 1 - number / 10) for number in range(2)]
    RunRetention(1_000, 90, clock=clock).tick()
    # Of 100 to 89 days ago, the last two are younger than 90 days.
    kept = [*yearly[1:], stuck, *often[10:], *young]
    assert left() == [run.pk for run in kept]
    assert set(LogPiece.objects.values_list("run", flat=True)) == {run.pk for run in kept}
    assert set(RunProgress.objects.values_list("run", flat=True)) == {run.pk for run in kept}


def test_beyond_so_many_the_oldest_go() -> None:
    clock = ManualClock()
    runs = [ran(clock, "often", 5 - number / 10) for number in range(10)]
    RunRetention(6, 90, clock=clock).tick()
    assert left() == [run.pk for run in runs[4:]]
    RunRetention(6, 90, clock=clock).tick()
    assert left() == [run.pk for run in runs[4:]]
