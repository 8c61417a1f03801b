"""The simulated night: played for real on database and store, twice, and told apart from the days."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from pytest_django import Settings

from examples.hotel import night, slots
from examples.hotel.books import HOTELS
from examples.hotel.models import BookLine, HeardClose, PlayedNight, RoomNights
from examples.hotel.night import CLOSE, INVOICE, PARITY, NightOutcome, drafts, last_night
from examples.hotel.simulator import simulate
from examples.hotel.verify import expected
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.known import KnownJobs
from hbus_console.jobs.models import Job, JobRun
from hbus_console.outbox.models import OutboxMessage

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "ledger"])
#: A night before any test is run: 31 January to 1 February 2025.
NOW = datetime(2025, 2, 17, 12, tzinfo=UTC)
RIGHT_AFTER = datetime(2025, 2, 1, 8, tzinfo=UTC)


@pytest.fixture
def sold(hotel: None) -> None:
    """The read model of a feed."""
    feed = simulate(500)
    RoomNights.objects.bulk_create(
        RoomNights(source=feed.source, hotel=name, night=day, sold=count)
        for (name, day), count in expected(feed).items()
    )


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """No consumer hears anything here, and all runs are kept."""
    monkeypatch.setattr(night, "STUCK_S", 0.0)
    settings.HBUS_RUN_DAYS = 36_500


def play(stop: threading.Event | None = None) -> NightOutcome:
    return night.play(SYSTEM, NOW, lambda _: None, stop or threading.Event())


def hear_all(times: int = 1) -> None:
    for line in BookLine.objects.filter(job=CLOSE):
        for group in ("front-desk", "channel-report", "revenue"):
            HeardClose.objects.create(group=group, job=line.job, hotel=line.hotel, day=line.period, times=times)


@pytest.mark.parametrize(
    ("now", "begin", "end"),
    [
        (NOW, "2025-01-31 20:00", "2025-02-01 08:00"),
        (RIGHT_AFTER, "2025-01-31 20:00", "2025-02-01 08:00"),
        (datetime(2025, 2, 1, 7, 59, tzinfo=UTC), "2024-12-31 20:00", "2025-01-01 08:00"),
        # Lisbon is an hour ahead in summer.
        (datetime(2025, 8, 1, 7, tzinfo=UTC), "2025-07-31 20:00", "2025-08-01 08:00"),
    ],
)
def test_it_is_the_last_night_that_is_over(now: datetime, begin: str, end: str) -> None:
    span = last_night(now)
    assert (night._told(span.begin_s), night._told(span.end_s)) == (begin, end)


def test_each_slot_of_it_is_accounted_for_and_a_second_play_does_nothing_twice(sold: None) -> None:
    first = play()
    hear_all()
    verdict = first.verdict
    assert (first.finished, first.decided, verdict.demanded, verdict.done, verdict.equal) == (True, 146, 146, 74, True)
    assert verdict.explained == {"skipped: another run of the job was running": 72}
    assert first.invoices == dict.fromkeys(HOTELS, 1)
    assert (first.closes, first.to_hear) == (2, 6)
    assert [line.split(" ", 1)[1].split(" was ")[0].rstrip("0123456789") for line in first.happened] == [
        "night-", "night-", "night-worker:jobs:0:",
    ]  # fmt: skip
    # Nobody heard of it: that is told.
    assert not first.holds

    # A run that was killed in the middle went on where it was, and one that nobody offered was found.
    invoice, close = JobRun.objects.get(job=INVOICE), JobRun.objects.get(job=CLOSE)
    assert (invoice.state, invoice.attempt, invoice.summary) == ("done", 2, "January 2025: 1 of 2 invoices written")
    assert (close.attempt, round((close.begun_us or 0) / 1e6) - close.slot) == (1, 10)
    assert sorted(BookLine.objects.filter(job=INVOICE).values_list("entries", flat=True)) == [1, 2]
    assert BookLine.objects.filter(job=CLOSE, stays__gt=0).count() == 2
    assert sorted(OutboxMessage.objects.values_list("message_id", flat=True)) == [
        "hotel.night.nightly-close-2025-01-31-city-hotel",
        "hotel.night.nightly-close-2025-01-31-resort-hotel",
    ]

    second = play()
    assert (second.decided, second.verdict, second.invoices) == (0, verdict, first.invoices)
    assert OutboxMessage.objects.count() == 2
    assert second.holds
    HeardClose.objects.filter(group="revenue").update(times=2)
    assert not play().holds
    assert slots.judge().equal


def test_it_is_told_apart_and_no_node_of_the_installation_takes_it_up(sold: None) -> None:
    stop = threading.Event()
    stop.set()
    assert not play(stop).finished
    names = {CLOSE, PARITY, INVOICE}
    known = {each.name: each.job for each in KnownJobs().changes()}
    assert len(known) == 3
    assert not names & known.keys()
    verdict = slots.judge()
    assert (verdict.equal, verdict.unfinished) == (False, ["2025-01-31T20:00:00.000Z"])

    assert play().finished
    assert PlayedNight.objects.exclude(finished_at=None).count() == 1
    for row in Job.objects.filter(name__in=names):
        assert row.paused
        assert row.description.startswith("Simulated night of 31 January 2025")
    known = {each.name: each.job for each in KnownJobs().changes()}
    held = [job.held for name, job in known.items() if name in names and job is not None]
    assert len(held) == 3
    assert all(why.startswith("paused: Simulated night") for why in held)


def test_what_is_kept_no_longer_is_not_missed(sold: None, settings: Settings) -> None:
    assert play().verdict.demanded == 146
    settings.HBUS_RUN_DAYS = 1
    JobRun.objects.all().delete()
    verdict = slots.judge()
    assert (verdict.demanded, verdict.equal) == (0, True)


def test_its_jobs_are_those_of_the_days_but_for_name_and_time() -> None:
    found = {draft.name: draft for draft in drafts(last_night(NOW))}
    assert {name: draft.schedule for name, draft in found.items()} == {
        PARITY: "*/5 0-7,20-23 1,31 1,2 *",
        CLOSE: "30 1 1 2 *",
        INVOICE: "0 3 1 2 *",
    }
    assert (found[PARITY].overlap, found[INVOICE].attempts, found[CLOSE].owner) == ("skip", 3, "Reservations")
