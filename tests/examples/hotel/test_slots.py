"""The hotels' jobs against their schedules: each kind of difference is planted, and told."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.core.management import call_command

from engine.cron.slots.steps import RunState
from examples.hotel import feeds, slots
from examples.hotel.books import HOTELS
from examples.hotel.models import BookLine, PlayedNight, RoomNights
from examples.hotel.verify import expected
from hbus_console.jobs.models import Job, JobCursor, JobRun, JobVersion
from tests.schema import without_constraint

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "ledger"])
CLOSE, INVOICE, PARITY = "hotel.nightly-close", "hotel.month-end-invoice", "hotel.rate-parity"
#: A day of Lisbon, which is UTC then; the jobs are made at its begin, and decided up to its end.
DAY = 1_793_491_200
AT = {CLOSE: DAY + 5_400, INVOICE: DAY + 10_800}
PERIOD = {CLOSE: date(2026, 10, 31), INVOICE: date(2026, 10, 1)}
CHECKS = range(DAY + 300, DAY + 86_401, 300)


def row(job: str, slot: int, state: RunState = RunState.DONE, reason: str = "") -> JobRun:
    us = slot * 1_000_000
    return JobRun.objects.create(
        job=job,
        version=1,
        slot=slot,
        state=state,
        reason=reason,
        decided_us=us,
        begun_us=us,
        changed_us=us,
        ended_us=us,
    )


@pytest.fixture
def day(hotel: None, settings: Any) -> None:
    """All as it should be: a day of the jobs, each slot accounted for."""
    settings.HBUS_RUN_DAYS = 36_500
    JobVersion.objects.update(made_at=datetime.fromtimestamp(DAY, tz=UTC))
    JobCursor.objects.update(at=DAY + 86_400)
    for job, at in AT.items():
        run = row(job, at)
        for name in HOTELS:
            BookLine.objects.create(job=job, hotel=name, period=PERIOD[job], stays=3, run=run.pk, slot=at, epoch=1)
    for slot in CHECKS:
        every_second = slot % 600 == 0
        row(PARITY, slot, *((RunState.DONE, "") if every_second else (RunState.SKIPPED, "another was running")))


def runs(job: str) -> Any:
    return JobRun.objects.filter(job=job)


PLANTED: dict[str, tuple[Callable[[], Any], str]] = {
    "missing": (lambda: runs(PARITY).filter(slot=CHECKS[7]).delete(), "it has no row"),
    "invented": (lambda: row(CLOSE, AT[CLOSE] + 60, RunState.SKIPPED, "why"), "the schedule does not name it"),
    "unexplained": (
        lambda: runs(PARITY).filter(slot=CHECKS[0]).update(reason=""),
        "it is skipped, and nobody says why",
    ),
    "effect_missing": (
        lambda: BookLine.objects.filter(job=INVOICE, hotel="City Hotel").delete(),
        "it is done, and nothing is entered for City Hotel",
    ),
    "effect_doubled": (
        lambda: BookLine.objects.filter(job=INVOICE, hotel="City Hotel").update(entries=2),
        "City Hotel was entered 2 times by a run of 1 attempts",
    ),
    "effect_invented": (
        lambda: runs(CLOSE).update(begun_us=None),
        "was entered by a run that never began",
    ),
}


def test_a_day_on_which_each_slot_is_accounted_for(day: None) -> None:
    verdict = slots.judge()
    assert verdict.equal
    assert {each.job: (each.demanded, each.done, each.effects) for each in verdict.jobs} == {
        CLOSE: (1, 1, 2),
        INVOICE: (1, 1, 2),
        PARITY: (288, 144, 0),
    }
    assert verdict.explained == {"skipped: another was running": 144}


@pytest.mark.parametrize("what", PLANTED)
def test_each_difference_is_told(day: None, what: str) -> None:
    plant, says = PLANTED[what]
    plant()
    verdict = slots.judge()
    # A run that never began can have entered neither hotel.
    count = 2 if what == "effect_invented" else 1
    assert verdict.faults == dict.fromkeys(slots.FAULTS, 0) | {what: count}
    assert not verdict.equal
    assert says in verdict.differences[0]


def test_two_rows_of_a_slot_are_told(day: None) -> None:
    with without_constraint(JobRun, "one_run_of_a_slot"):
        second = row(INVOICE, AT[INVOICE])
        try:
            verdict = slots.judge()
        finally:
            second.delete()
    assert (verdict.faults["doubled"], verdict.equal) == (1, False)
    assert verdict.differences[0].endswith("it has 2 rows")


def test_an_attempt_that_finds_its_own_line_doubles_nothing(day: None) -> None:
    runs(INVOICE).update(attempt=2)
    BookLine.objects.filter(job=INVOICE).update(entries=2)
    assert slots.judge().equal


def test_what_is_under_way_or_not_decided_yet_is_no_difference(day: None) -> None:
    runs(PARITY).filter(slot=CHECKS[-1]).update(state=RunState.RUNNING, ended_us=None)
    assert (slots.judge().open, slots.judge().equal) == (1, True)
    JobCursor.objects.update(at=CHECKS[-2])
    runs(PARITY).filter(slot=CHECKS[-1]).delete()
    assert slots.judge().equal


def test_a_night_that_was_not_played_to_its_end_is_told(day: None) -> None:
    when = {"hotel.night.nightly-close": {"schedule": "30 1 1 11 *", "zone": "UTC", "gap": "end", "fold": "first"}}
    night = PlayedNight.objects.create(begin_s=DAY - 14_400, end_s=DAY + 28_800, when=when)
    verdict = slots.judge()
    assert (verdict.unfinished, verdict.faults["missing"]) == (["2026-10-31T20:00:00.000Z"], 1)
    assert slots.judge_night(night).demanded == 1


def test_without_jobs_there_is_nothing_to_compare(day: None) -> None:
    Job.objects.all().delete()
    assert (slots.judge().jobs, slots.judge().equal) == ([], True)


@pytest.fixture
def nights_are_right() -> None:
    feed = feeds.open_feed("", 60)
    RoomNights.objects.bulk_create(
        RoomNights(source=feed.source, hotel=name, night=night, sold=sold)
        for (name, night), sold in expected(feed).items()
    )


def test_the_command_tells_the_slots_too(
    day: None, nights_are_right: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKINGS", "")
    call_command("hotel_verify", "--limit", "60")
    assert (
        "Equal: 290 slots demanded of 3 jobs: 146 done with 4 effects, 144 not, each with its reason, 0 under way."
        in capsys.readouterr().out
    )
    call_command("hotel_verify", "--limit", "60", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["equal"], told["slots"]["equal"], told["slots"]["demanded"]) == (True, True, 290)

    PLANTED["missing"][0]()
    PLANTED["effect_doubled"][0]()
    for more in ((), ("--json",)):
        with pytest.raises(SystemExit) as ended:
            call_command("hotel_verify", "--limit", "60", *more)
        assert ended.value.code == 1
    said, _, answer = capsys.readouterr().out.rpartition("\n{")
    assert "Not equal: 290 slots demanded" in said
    assert "  1 missing, 1 effect doubled; first:\n" in said
    assert "hotel.rate-parity at 2026-11-01T00:40:00.000Z: it has no row" in said
    told = json.loads("{" + answer)
    assert (told["equal"], told["slots"]["equal"]) == (True, False)
    assert told["slots"]["faults"] == dict.fromkeys(slots.FAULTS, 0) | {"missing": 1, "effect_doubled": 1}
