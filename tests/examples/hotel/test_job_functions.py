"""What the hotels' jobs do: once for a day or a month, however often they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.cron.work.call import RunCall, RunContext, WorkOutcome
from engine.cron.work.functions import find_function
from engine.cron.work.log_spool import LogSpool
from examples.hotel import books, closing, job_functions
from examples.hotel.books import HOTELS
from examples.hotel.closing import closed_day
from examples.hotel.events import NightClosed
from examples.hotel.invoicing import invoiced_month
from examples.hotel.models import BookLine, HeardClose, RoomNights
from hbus_console.outbox.models import OutboxMessage

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
#: 2 March 2026, 01:30 in Lisbon.
SLOT = 1_772_415_000
CITY, RESORT = HOTELS

Call = Callable[..., tuple[WorkOutcome, str]]


class Patient(RunContext):
    """Waits for nothing, and keeps for how long it should have."""

    waited_s = 0.0

    def wait(self, seconds: float) -> None:
        self.raise_if_stopped()
        self.waited_s += seconds


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Call]:
    """Calls a function as a run would; how it ended, and its log."""
    assert job_functions
    spools: list[LogSpool] = []

    def run(
        name: str, number: int = 7, *, attempt: int = 1, slot: int = SLOT, **parameters: Any
    ) -> tuple[WorkOutcome, str]:
        spool = LogSpool(tmp_path / f"{len(spools)}", number, attempt)
        spools.append(spool)
        context = Patient(RunCall(number, name, attempt, slot, attempt, f"run-{number}", parameters), spool)
        return find_function(name).run(context), spool.read(last=True)

    yield run
    for spool in spools:
        spool.close()


def sold(hotel: str, night: date, count: int, source: str = "/hotel/test/1") -> None:
    RoomNights.objects.create(source=source, hotel=hotel, night=night, sold=count)


def test_days_and_months_are_those_of_the_hotels_wall() -> None:
    # 23:30 UTC of the 30th of June is the 1st of July in Lisbon.
    summer = int(datetime(2026, 6, 30, 23, 30, tzinfo=UTC).timestamp())
    assert books.local_day(summer) == date(2026, 7, 1)
    assert (closed_day(summer), invoiced_month(summer)) == (date(2026, 6, 30), date(2026, 6, 1))
    assert (closed_day(SLOT), invoiced_month(SLOT)) == (date(2026, 3, 1), date(2026, 2, 1))


def test_a_day_is_counted_under_its_like_in_the_last_year_that_has_any() -> None:
    for year, count in ((2024, 9), (2025, 4)):
        sold(CITY, date(year, 3, 1), count)
        sold(RESORT, date(year, 2, 1), 50 * count)
    # After the day itself, and of a feed before.
    sold(CITY, date(2027, 3, 1), 99)
    assert books.stays_of_day(CITY, date(2026, 3, 1)) == 4
    assert books.stays_of_day(RESORT, date(2026, 3, 1)) == 0
    assert books.stays_of_month(RESORT, date(2026, 2, 1)) == 200
    sold(CITY, date(2023, 3, 1), 2, source="/hotel/newer/1")
    assert books.stays_of_day(CITY, date(2026, 3, 1)) == 2


def test_the_close_enters_and_publishes_each_hotel_once_whoever_closes(hotel: None, call: Call) -> None:
    sold(CITY, date(2026, 3, 1), 5)
    outcome, log = call("hotel.nightly-close")
    assert (outcome.done, outcome.summary) == (True, "2026-03-01: 2 of 2 hotels closed and published")
    assert "City Hotel: 5 rooms sold on 2026-03-01; its line is new" in log
    messages = OutboxMessage.objects.order_by("pk")
    assert [(row.topic, row.message_id, row.idempotency_key) for row in messages] == [
        ("night.closed", named, named)
        for named in ("hotel.nightly-close-2026-03-01-city-hotel", "hotel.nightly-close-2026-03-01-resort-hotel")
    ]
    assert b'"stays":5' in bytes(messages[0].body)
    # Tried again, and closed by another run.
    for number, attempt in ((7, 2), (8, 1)):
        outcome, _ = call("hotel.nightly-close", number, attempt=attempt)
        assert outcome.summary == "2026-03-01: 0 of 2 hotels closed and published"
    assert messages.count() == 2
    assert set(BookLine.objects.values_list("run", "entries")) == {(7, 2)}


def test_a_second_run_of_a_month_is_refused_and_an_attempt_goes_on(call: Call) -> None:
    outcome, _ = call("hotel.month-end-invoice")
    assert (outcome.done, outcome.summary) == (True, "February 2026: 2 of 2 invoices written")
    BookLine.objects.filter(hotel=RESORT).delete()
    outcome, _ = call("hotel.month-end-invoice", attempt=2)
    assert (outcome.done, outcome.summary) == (True, "February 2026: 1 of 2 invoices written")
    outcome, _ = call("hotel.month-end-invoice", 8)
    assert (outcome.done, outcome.again) == (False, False)
    assert outcome.reason == "the invoice of February 2026 for City Hotel was written by another run"
    assert sorted(BookLine.objects.values_list("hotel", "run", "entries")) == [(CITY, 7, 2), (RESORT, 7, 1)]


def test_rate_parity_takes_longer_than_to_the_next_check(call: Call) -> None:
    waits: list[float] = []

    def keep(self: Patient, seconds: float) -> None:
        waits.append(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Patient, "wait", keep)
        outcome, log = call("hotel.rate-parity", slot=SLOT + 300 * 40)
    assert (len(waits), sum(waits)) == (18, 324.0)
    assert outcome.summary.startswith("18 rates asked for, ")
    assert log.count("at another price") == int(outcome.summary.split(", ")[1].split()[0])


def test_a_team_that_hears_twice_is_counted_twice() -> None:
    event = NightClosed("hotel.nightly-close", CITY, date(2026, 3, 1), 5)
    for group in ("revenue", "revenue", "front-desk"):
        closing.hear(group, event)
    assert sorted(HeardClose.objects.values_list("group", "times")) == [("front-desk", 1), ("revenue", 2)]
