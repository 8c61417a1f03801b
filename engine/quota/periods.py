"""Calendar periods, in the days of a time zone."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo


class Period(StrEnum):
    NONE = ""
    DAY = "day"
    MONTH = "month"
    #: It counts no time: so many may be at work at once.
    AT_ONCE = "at once"


def period_at(period: Period, zone: str, at_ms: int) -> tuple[int, int]:
    """When the period that ``at_ms`` lies in began and ends, in epoch milliseconds; a day may have 23 or 25 hours.

    Raises ``ZoneInfoNotFoundError`` for a zone that is none.
    """
    here = ZoneInfo(zone)
    day = datetime.fromtimestamp(at_ms / 1000, here).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if period is Period.MONTH:
        began = day.replace(day=1)
        ends = (began + timedelta(days=32)).replace(day=1)
    else:
        began, ends = day, day + timedelta(days=1)
    return round(began.timestamp() * 1000), round(ends.timestamp() * 1000)
