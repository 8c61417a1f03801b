"""What would run in a span of time: as lines, and as a list with what would run beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from engine.core.errors import BadInput
from engine.core.numbers import whole
from engine.cron.expression.offsets import Zone
from engine.cron.expression.offsets import zone as zone_named
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import actor, console_view, field_errors
from hbus_console.jobs.drawing import DayLine, day
from hbus_console.jobs.simulating import MOST_JOBS, MOST_OF_ONE, MOST_SLOTS, Simulation, simulate
from hbus_console.jobs.standing import JobFilters, found_jobs, job_rows
from hbus_console.jobs.time_axis import AxisMark, axis, ticks
from hbus_console.ui.pages import clock
from hbus_console.ui.rows import read_filters

#: Days at once, and lines of the picture.
MOST_DAYS, MOST_LINES = 31, 20
#: Rows of the list: the first, which are what a person reads.
MOST_LISTED = 300


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def simulation(request: HttpRequest) -> HttpResponse:
    who, wanted, now_ms = actor(request), read_filters(JobFilters, request.GET), clock.now_ms()
    shown = {
        "begin": request.GET.get("begin", ""),
        "days": request.GET.get("days", "") or "1",
        "zone": request.GET.get("zone", "") or timezone.get_current_timezone_name(),
    }
    context: dict[str, object] = {
        "nav": "jobs",
        "wanted": wanted,
        "shown": shown,
        "most_days": MOST_DAYS,
        "most": MOST_SLOTS,
    }
    try:
        first, days, wall = _span(shown["begin"], shown["days"], shown["zone"], now_ms)
    except BadInput as refused:
        return render(request, "jobs/simulation.html", {**context, "errors": field_errors(refused)}, status=422)
    begin_s, end_s = (wall.instant(datetime.combine(each, time())) for each in (first, first + days))
    found = found_jobs(who, wanted)
    number = found.count()
    rows = job_rows(list(found[:MOST_JOBS]), now_ms * 1_000)
    usual_s = {row.job.name: row.usual_us / 1_000_000 if row.usual_us else None for row in rows}
    result = simulate([row.job for row in rows], usual_s, begin_s, end_s)
    marks, drawn = ticks(first, days.days, wall), _drawn(result)
    on_wall = ZoneInfo(wall.name)
    context |= {
        "result": result,
        # On the wall of the zone that was asked for, whatever that of the reader is.
        "span": [f"{datetime.fromtimestamp(at, on_wall):%Y-%m-%d %H:%M}" for at in (begin_s, end_s)],
        "most_of_one": MOST_OF_ONE,
        "listed": result.planned[:MOST_LISTED],
        "lines": _lines(result, drawn[:MOST_LINES], begin_s, end_s, marks),
        "drawable": len(drawn),
        "axis": axis(marks),
        "found": number,
        "left_out": max(0, number - MOST_JOBS),
    }
    return render(request, "jobs/simulation.html", context)


def _span(begin: str, days: str, zone: str, now_ms: int) -> tuple[date, timedelta, Zone]:
    """The first day, how many there are, and of which zone; raises ``BadInput`` naming the field."""
    wall = zone_named(zone)
    number = whole(days)
    if number is None or not 1 <= number <= MOST_DAYS:
        raise BadInput(f"{days} is no number of days.", remedy=f"Write 1 to {MOST_DAYS}.", field="days")
    try:
        first = (
            date.fromisoformat(begin) if begin else datetime.fromtimestamp(now_ms / 1000, ZoneInfo(wall.name)).date()
        )
        # A day that has no next has no end.
        first + timedelta(days=number)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{begin} is no date.", remedy="Write 2027-03-28.", field="begin") from error
    return first, timedelta(days=number), wall


def _drawn(result: Simulation) -> list[str]:
    """The jobs whose slots can be told from each other."""
    return [name for name, slots in result.slots.items() if slots and name not in result.dense]


def _lines(
    result: Simulation, names: Sequence[str], begin_s: int, end_s: int, marks: Sequence[AxisMark]
) -> list[dict[str, object]]:
    across = [mark.share for mark in marks]
    lines = [DayLine(name, (), result.slots[name], end_s - begin_s) for name in names]
    return [{"job": line.job, "drawn": day(line, begin_s, 0, across)} for line in lines]
