"""What croniter says of the same expression, for whoever edits one and knows cron from elsewhere."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from croniter import croniter

from engine.cron.expression.schedule import Schedule

#: Where croniter gives up to look for a next one.
_YEARS = 30


def croniter_slots(schedule: Schedule, after: int, count: int) -> list[int] | None:
    """Its next ``count`` instants after ``after``, in seconds UTC; ``None`` where it reads that not, or the expression.

    It knows no policy of its own for changes of the clocks: there it may differ with reason.
    """
    if not schedule.fields:
        return None
    seconds, *others = schedule.fields
    written = " ".join(others if seconds == "0" else schedule.fields)
    try:
        begin = datetime.fromtimestamp(after, tz=ZoneInfo(schedule.zone))
        found = croniter(written, begin, ret_type=datetime, second_at_beginning=True, max_years_between_matches=_YEARS)
        return [round(found.get_next().timestamp()) for _ in range(count)]
    except (ValueError, OverflowError):
        return None
