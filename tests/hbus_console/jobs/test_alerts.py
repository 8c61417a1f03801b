"""A job that fails, that does not run, or that runs for too long raises an alert, and ends it."""

from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from engine.cron.slots.steps import RunState
from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts.models import Alert
from hbus_console.jobs.alerts import MOST_IN_A_ROW, FailuresInARow
from hbus_console.jobs.models import JobCursor, JobRun
from hbus_console.jobs.services.jobs import pause_job
from tests.hbus_console.alerts.conftest import Watch, rule
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def watch(own_keys: None, make_job: MakeJob) -> Watch:
    """Watching ``close-of-day``, which runs at 03:00, for long enough; its rules are made last."""
    make_job("http", "https://1.1.1.1/")
    found = Watch(ManualClock())
    JobCursor.objects.update(at=found.clock.now_ms() // 1000)
    found.go(None, rounds=8)
    return found


def ended(watch: Watch, state: RunState) -> None:
    now_s = watch.clock.now_ms() // 1000
    at_us = now_s * 1_000_000
    slot = now_s + JobRun.objects.count()
    JobRun.objects.create(
        job="close-of-day", version=1, slot=slot, state=state, decided_us=at_us, ended_us=at_us, changed_us=at_us
    )


def test_it_fires_with_the_failures_in_a_row_and_ends_with_a_run_that_is_done(watch: Watch) -> None:
    rule("job_failures", 2, clear_s=0)
    ended(watch, RunState.FAILED)
    assert watch.go(None) == []
    ended(watch, RunState.SKIPPED)
    ended(watch, RunState.LOST)
    assert watch.go(None) == ["firing"]
    assert Alert.objects.get().value == 2
    ended(watch, RunState.DONE)
    assert watch.go(None, rounds=2)[-1] == "resolved"


def test_so_many_failures_in_a_row_are_counted_and_no_more(watch: Watch) -> None:
    for _ in range(MOST_IN_A_ROW + 5):
        ended(watch, RunState.FAILED)
    assert FailuresInARow().read(watch.clock.now_ms()) == {"close-of-day": MOST_IN_A_ROW}


def test_a_slot_that_nobody_decides_is_told_of(watch: Watch) -> None:
    rule("job_silent", 60, clear_s=0)
    assert watch.go(None) == []
    now_s = watch.clock.now_ms() // 1000
    JobCursor.objects.update(at=now_s - 2 * 86_400)
    assert watch.go(None) == ["firing"]
    assert Alert.objects.get().value > 60
    JobCursor.objects.update(at=now_s)
    assert watch.go(None, rounds=2)[-1] == "resolved"


def test_a_run_that_nobody_begins_is_late_and_its_job_is_not_said_to_run_never(watch: Watch) -> None:
    rule("job_silent", 60, clear_s=0)
    rule("job_late", 60, clear_s=0)
    now_s = watch.clock.now_ms() // 1000
    JobCursor.objects.update(at=now_s)
    assert watch.go(None) == []
    waiting = {"job": "close-of-day", "version": 1, "slot": now_s - 300, "decided_us": 1, "changed_us": 1}
    run = JobRun.objects.create(state=RunState.CLAIMED, waits=True, **waiting)
    # It waits for another run of its job, as it should.
    assert watch.go(None) == []
    JobRun.objects.filter(pk=run.pk).update(waits=False)
    assert watch.go(None)[-1] == "firing"
    assert [alert.kind for alert in Alert.objects.all()] == ["job_late"]


def test_a_run_waits_for_a_worker_only_once_it_is_due(watch: Watch) -> None:
    rule("job_late", 60, clear_s=0)
    JobCursor.objects.update(at=watch.clock.now_ms() // 1000)
    now_s = watch.clock.now_ms() // 1000
    slot = {"job": "close-of-day", "version": 1, "slot": now_s - 300, "state": RunState.CLAIMED}
    # By its jitter it is to begin later than its slot.
    run = JobRun.objects.create(not_before_us=(now_s + 100) * 1_000_000, decided_us=1, changed_us=1, **slot)
    assert watch.go(None) == []
    JobRun.objects.filter(pk=run.pk).update(not_before_us=(now_s - 10) * 1_000_000)
    assert watch.go(None) == []
    # Tried again: since its attempt before was lost.
    again = JobRun.objects.filter(pk=run.pk)
    again.update(attempt=2, last_end=RunState.LOST, not_before_us=0, changed_us=(now_s - 20) * 1_000_000)
    assert watch.go(None) == []
    again.update(changed_us=(now_s - 100) * 1_000_000)
    assert watch.go(None)[-1] == "firing"


def test_one_that_is_paused_is_not_expected_to_run(watch: Watch) -> None:
    rule("job_silent", 60)
    JobCursor.objects.update(at=watch.clock.now_ms() // 1000 - 2 * 86_400)
    pause_job(SYSTEM, "close-of-day", "a release")
    assert watch.go(None, rounds=2) == []


def test_a_run_that_goes_on_for_too_long_is_told_of(watch: Watch) -> None:
    rule("job_long", 60, clear_s=0)
    now_us = watch.clock.now_ms() * 1_000
    times = {"decided_us": 1, "changed_us": 1, "begun_us": now_us - 40_000_000}
    run = JobRun.objects.create(job="close-of-day", version=1, slot=1, state=RunState.RUNNING, **times)
    assert watch.go(None) == []
    assert watch.go(None, rounds=2)[-1] == "firing"
    JobRun.objects.filter(pk=run.pk).update(state=RunState.DONE, ended_us=now_us)
    assert watch.go(None, rounds=2)[-1] == "resolved"
