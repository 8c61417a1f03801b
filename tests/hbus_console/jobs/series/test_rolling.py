"""Series of jobs are what became of their runs: each figure, once, and put right when a run ends late."""

from __future__ import annotations

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from engine.core.clock import ManualClock
from engine.cron.slots.steps import RunState
from hbus_console.jobs import retention
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.retention import RunRetention
from hbus_console.jobs.series import rolling
from hbus_console.jobs.series.retention import job_series_retention
from hbus_console.jobs.series.rolling import SETTLE_US, JobSeriesRollUp
from hbus_console.jobs.series.rows import JobSeriesPoint, JobsRolledUp
from hbus_console.keeper.duties import all_duties
from tests.hbus_console.jobs.series.planted import AT, DAY_S, HOUR_S, JOB, end, everything, planted, point

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def clock() -> ManualClock:
    """An hour later."""
    return ManualClock((AT + HOUR_S) * 1_000)


def roll_up(clock: ManualClock) -> None:
    JobSeriesRollUp(clock=clock).tick()


def test_every_figure_of_a_minute_its_hour_and_its_day(clock: ManualClock) -> None:
    for slot, late_ms, took_ms in ((AT, 10, 2_000), (AT + 1, 30, 4_000), (AT + 2, 500, 60_000)):
        planted(slot, RunState.DONE, late_ms=late_ms, took_ms=took_ms)
    planted(AT + 3, RunState.FAILED, late_ms=20, took_ms=1_000, attempt=3)
    planted(AT + 4, RunState.SKIPPED)
    planted(AT + 5, RunState.LOST, late_ms=20, took_ms=1_000)
    planted(AT + 6, RunState.ABANDONED)
    planted(AT + 7, RunState.CANCELLED)
    planted(AT + 8, RunState.RUNNING, late_ms=40)
    planted(AT + 9, RunState.CLAIMED)
    # Another minute of the hour, another hour of the day, and another job.
    planted(AT + 60, RunState.DONE, late_ms=9_000, took_ms=100)
    planted(AT + HOUR_S, RunState.DONE, late_ms=1, took_ms=1)
    planted(AT, RunState.SKIPPED, job="other")
    roll_up(clock)
    minute = point("minute", AT)
    assert (minute.runs, minute.begun, minute.open, minute.retried) == (10, 6, 2, 2)
    ends = (minute.done, minute.failed, minute.skipped, minute.lost, minute.abandoned, minute.cancelled)
    assert ends == (3, 1, 1, 1, 1, 1)
    # Of 10, 20, 20, 30, 40 and 500; and of 1, 1, 2, 4 and 60 s. Off by 1 % at most, the longest not at all.
    assert minute.late_p50_ms == pytest.approx(20, rel=0.011)
    assert minute.late_p99_ms == pytest.approx(500, rel=0.011)
    assert minute.late_longest_ms == 500
    assert minute.p50_ms == pytest.approx(2_000, rel=0.011)
    assert minute.p99_ms == pytest.approx(60_000, rel=0.011)
    assert minute.longest_ms == 60_000
    hour, day = point("hour", AT - 60), point("day", AT // DAY_S * DAY_S)
    assert (hour.runs, hour.done, hour.late_longest_ms, hour.longest_ms) == (11, 4, 9_000, 60_000)
    assert hour.p50_ms == pytest.approx(1_000, rel=0.011)
    assert (day.runs, day.done, day.open, day.late_longest_ms) == (12, 5, 2, 9_000)
    assert point("minute", AT, "other").skipped == 1
    assert point("minute", AT, "other").late_p50_ms is None


def test_a_trigger_is_late_from_when_it_was_made_and_a_ping_never(clock: ManualClock) -> None:
    made_us = AT * 1_000_000 + 700_000
    begun = {"decided_us": made_us, "begun_us": made_us + 50_000, "first_late_us": None}
    planted(AT, RunState.DONE, kind=JobRun.Kind.MANUAL, key="a", **begun)
    planted(AT + 60, RunState.RUNNING, kind=JobRun.Kind.PING, **begun)
    roll_up(clock)
    assert point("minute", AT).late_longest_ms == 50
    assert (point("minute", AT + 60).begun, point("minute", AT + 60).late_longest_ms) == (1, None)


def test_a_run_between_two_attempts_has_begun_and_took_nothing_yet(clock: ManualClock) -> None:
    planted(AT, RunState.CLAIMED, attempt=2, begun_us=None, first_late_us=7_000)
    roll_up(clock)
    minute = point("minute", AT)
    assert (minute.begun, minute.open, minute.retried, minute.late_longest_ms, minute.p50_ms) == (1, 1, 1, 7, None)


def test_a_second_time_and_at_rest_nothing_is_written(clock: ManualClock) -> None:
    planted(AT, RunState.DONE, late_ms=10, took_ms=2_000)
    roll_up(clock)
    before, mark = everything(), JobsRolledUp.objects.values().get()
    clock.advance(600)
    with CaptureQueriesContext(connections["ledger"]) as asked:
        roll_up(clock)
    assert not [query["sql"] for query in asked if not query["sql"].startswith("SELECT")]
    assert (everything(), JobsRolledUp.objects.values().get()) == (before, mark)
    # Nor where all is looked at again.
    JobsRolledUp.objects.update(changed_us=0)
    roll_up(clock)
    assert everything() == before


def test_a_run_that_ends_late_puts_its_minute_its_hour_and_its_day_right(clock: ManualClock) -> None:
    planted(AT, RunState.DONE, late_ms=10, took_ms=1_000)
    slow = planted(AT + 1, RunState.RUNNING, late_ms=10)
    roll_up(clock)
    assert [(point(*span).open, point(*span).longest_ms) for span in SPANS] == [(1, 1_000)] * 3
    end(slow, RunState.FAILED, AT + 3_001)
    roll_up(clock)
    for span in SPANS:
        found = point(*span)
        assert (found.runs, found.open, found.done, found.failed) == (2, 0, 1, 1)
        assert found.longest_ms == 2_999_990
        assert found.p50_ms == pytest.approx(1_000, rel=0.011)


SPANS = [("minute", AT), ("hour", AT - 60), ("day", AT // DAY_S * DAY_S)]


def test_a_run_that_ends_after_its_minute_would_have_gone_is_counted_once() -> None:
    clock = ManualClock((AT + 20) * 1_000)
    planted(AT, RunState.DONE, late_ms=10, took_ms=1_000)
    slow, over = planted(AT + 1, RunState.RUNNING, late_ms=10), planted(AT + 60, RunState.DONE)
    roll_up(clock)
    clock.advance(5 * DAY_S)
    planted(AT + 5 * DAY_S, RunState.DONE)
    roll_up(clock)
    clock.advance(SETTLE_US / 1e6)
    planted(AT + 5 * DAY_S + 100, RunState.DONE)
    roll_up(clock)
    job_series_retention(clock=clock).tick()
    of_then = JobSeriesPoint.objects.filter(resolution="minute", at__lt=AT + DAY_S)
    assert [each.at for each in of_then] == [AT], "the one that has an open run"
    end(slow, RunState.DONE, AT + 5 * DAY_S + 90)
    # A ping that comes afterwards changes one that is over, and its minute has gone.
    end(over, RunState.FAILED, AT + 5 * DAY_S + 95)
    for _ in range(3):
        roll_up(clock)
        job_series_retention(clock=clock).tick()
        clock.advance(SETTLE_US / 1e6)
        planted(clock.now_ms() // 1_000, RunState.DONE)
    assert [point(*span).runs for span in SPANS[1:]] == [3, 3]
    assert [point(*span).open for span in SPANS[1:]] == [0, 0]
    assert not of_then.filter(at=AT).exists()


def test_what_commits_late_is_not_passed_over(clock: ManualClock) -> None:
    """It bears a time of change before the last that was rolled up."""
    now_s = clock.now_ms() // 1_000
    planted(now_s, RunState.DONE)
    roll_up(clock)
    planted(now_s - 60, RunState.DONE)
    roll_up(clock)
    assert point("day", AT // DAY_S * DAY_S).runs == 2


def test_many_changes_of_one_moment_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    monkeypatch.setattr(rolling, "CHANGES", 3)
    for number in range(10):
        planted(AT + 120 * number, RunState.SKIPPED, changed_us=AT * 1_000_000)
    roll_up(clock)
    assert point("day", AT // DAY_S * DAY_S).skipped == 10
    assert JobSeriesPoint.objects.filter(resolution="minute").count() == 10
    assert JobsRolledUp.objects.get().whole


def test_a_tick_hands_back_control_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    monkeypatch.setattr(rolling, "CHANGES", 3)
    monkeypatch.setattr(rolling, "TICK_S", -1.0)
    # The fourth changed in the same moment as the third, with which the first tick ends.
    for number, changed_s in enumerate((1, 2, 3, 3, 4, 5, 6)):
        planted(AT + 60 * number, RunState.DONE, changed_us=(AT + changed_s) * 1_000_000)
    counted = []
    for _ in range(4):
        roll_up(clock)
        counted.append(point("day", AT // DAY_S * DAY_S).runs)
    assert counted == [3, 5, 7, 7]
    assert JobsRolledUp.objects.get().whole


def test_a_run_is_counted_before_it_goes(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    monkeypatch.setattr(retention, "KEPT_OF_EACH", 1)
    for number in range(6):
        planted(AT + number * 60, RunState.DONE, late_ms=10, took_ms=50)
    RunRetention(2, 90, clock=clock).tick()
    assert JobRun.objects.count() == 2
    assert JobSeriesPoint.objects.filter(resolution="minute").count() == 4
    roll_up(clock)
    roll_up(clock)
    assert (point("day", AT // DAY_S * DAY_S).runs, point("minute", AT).longest_ms) == (6, 50)


def test_a_run_stays_until_no_other_of_its_minute_is_open(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    monkeypatch.setattr(retention, "KEPT_OF_EACH", 1)
    first, slow = planted(AT, RunState.DONE), planted(AT + 1, RunState.RUNNING)
    for number in range(1, 4):
        planted(AT + number * 60, RunState.DONE)
    RunRetention(1, 90, clock=clock).tick()
    assert JobRun.objects.filter(pk=first.pk).exists()
    end(slow, RunState.DONE, AT + 400)
    roll_up(clock)
    RunRetention(1, 90, clock=clock).tick()
    assert not JobRun.objects.filter(pk=first.pk).exists()
    assert (point("minute", AT).done, point("day", AT // DAY_S * DAY_S).done) == (2, 5)


def test_a_minute_of_which_runs_are_gone_stays_as_it_was(clock: ManualClock) -> None:
    first, second = planted(AT, RunState.DONE), planted(AT + 1, RunState.DONE)
    roll_up(clock)
    before = everything()
    first.delete()
    end(second, RunState.DONE, AT + 5)
    JobsRolledUp.objects.update(changed_us=0)
    roll_up(clock)
    assert everything() == before


def test_series_stay_when_runs_and_job_are_gone(clock: ManualClock) -> None:
    planted(AT, RunState.DONE)
    roll_up(clock)
    JobRun.objects.all().delete()
    roll_up(clock)
    assert point("day", AT // DAY_S * DAY_S, JOB).done == 1


def test_points_go_by_their_resolution_and_those_of_days_never() -> None:
    today_s = AT // DAY_S * DAY_S
    for resolution in ("minute", "hour", "day"):
        for back in range(5):
            JobSeriesPoint.objects.create(job=JOB, resolution=resolution, at=today_s - back * 50 * DAY_S, runs=1)
    JobsRolledUp.objects.create(pk=1, changed_us=AT * 1_000_000)
    job_series_retention(clock=ManualClock(AT * 1_000)).tick()
    kept = list(JobSeriesPoint.objects.order_by("pk").values_list("resolution", flat=True))
    assert [kept.count(each) for each in ("minute", "hour", "day")] == [1, 2, 5]


def test_the_keeper_has_both() -> None:
    assert {"job-series", "job-series-retention"} <= {duty.name for duty in all_duties()}
