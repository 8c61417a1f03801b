"""How long 4,000 jobs with a run a minute take to be rolled up: ``python -m pytest -s`` with the path of this file.

No test of the run: a time is the machine's.
"""

from __future__ import annotations

from time import perf_counter, process_time

import pytest

from engine.core.clock import ManualClock
from engine.cron.slots.steps import RunState
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.series.rolling import JobSeriesRollUp
from hbus_console.jobs.series.rows import JobSeriesPoint
from tests.hbus_console.jobs.series.planted import AT

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
JOBS, MINUTES = 4_000, 5


def test_how_long_it_takes() -> None:
    """Twice: at first, and of one minute more, which changes all hours and days again."""
    for first, minutes in ((0, MINUTES), (MINUTES, 1)):
        for minute in range(first, first + minutes):
            slot = AT + 60 * minute
            begun_us = slot * 1_000_000 + 40_000
            JobRun.objects.bulk_create(
                JobRun(
                    job=f"fleet.job-{number}",
                    version=1,
                    slot=slot,
                    state=RunState.DONE,
                    decided_us=slot * 1_000_000,
                    begun_us=begun_us + number,
                    first_late_us=40_000 + number,
                    ended_us=begun_us + 300_000 + 7 * number,
                    changed_us=begun_us + 300_000 + 7 * number,
                )
                for number in range(JOBS)
            )
        clock = ManualClock((AT + 60 * (first + minutes)) * 1_000)
        started, worked = perf_counter(), process_time()
        wanted = JOBS * (first + minutes)
        while JobSeriesPoint.objects.filter(resolution="minute").count() < wanted:
            JobSeriesRollUp(clock=clock).tick()
        took, work = perf_counter() - started, process_time() - worked
        told = f"{took:.1f} s, {work:.1f} s of them work of this process"
        print(f"\n{JOBS:,} jobs, {minutes} minutes of runs: {JOBS * minutes:,} in {told}")
