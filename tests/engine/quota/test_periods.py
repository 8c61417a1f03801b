"""Days and months of a time zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engine.quota.periods import Period, period_at


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("period", "zone", "at", "began", "ends"),
    [
        (Period.DAY, "UTC", "2026-11-26T15:00", "2026-11-26T00:00", "2026-11-27T00:00"),
        (Period.DAY, "UTC", "2026-11-26T00:00", "2026-11-26T00:00", "2026-11-27T00:00"),
        (Period.DAY, "Asia/Shanghai", "2026-11-26T15:59", "2026-11-25T16:00", "2026-11-26T16:00"),
        # The clock goes back, and forward: a day of 25 hours, and one of 23.
        (Period.DAY, "Europe/Lisbon", "2026-10-25T12:00", "2026-10-24T23:00", "2026-10-26T00:00"),
        (Period.DAY, "Europe/Lisbon", "2026-10-25T01:30", "2026-10-24T23:00", "2026-10-26T00:00"),
        (Period.DAY, "Europe/Lisbon", "2027-03-28T12:00", "2027-03-28T00:00", "2027-03-28T23:00"),
        (Period.MONTH, "UTC", "2026-12-31T23:59", "2026-12-01T00:00", "2027-01-01T00:00"),
        (Period.MONTH, "UTC", "2028-02-10T00:00", "2028-02-01T00:00", "2028-03-01T00:00"),
        (Period.MONTH, "Europe/Lisbon", "2026-10-31T23:30", "2026-09-30T23:00", "2026-11-01T00:00"),
    ],
)
def test_rows(period: Period, zone: str, at: str, began: str, ends: str) -> None:
    assert period_at(period, zone, ms(at)) == (ms(began), ms(ends))
