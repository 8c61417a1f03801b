"""The times of a span of days, for pictures of it: as lines across them, and by name above."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from engine.cron.expression.offsets import Zone
from hbus_console.jobs.wall import anchor, percent

#: Spans up to so many days, and the hours between two of their times. They have nine names at most.
_STEPS = ((1, 3), (2, 6), (3, 12), (8, 24), (16, 48), (31, 96))
#: Of the names so many stretches between them are left where a screen is narrow.
_NARROW = 3


class AxisMark(NamedTuple):
    """A time that is named, and where it stands in the picture: 0 at its begin, 1 at its end."""

    share: float
    name: str


def ticks(first: date, days: int, wall: Zone) -> list[AxisMark]:
    """The times of ``days`` days from the ``first`` on, on that wall: hours of one, or dates of several."""
    each = next(hours for most, hours in _STEPS if days <= most)
    midnight = datetime.combine(first, time())
    begin_s, end_s = wall.instant(midnight), wall.instant(midnight + timedelta(days=days))
    found = {(at_s - begin_s) / (end_s - begin_s): name for at_s, name in _named(midnight, days, each, wall)}
    return [AxisMark(share, name) for share, name in found.items()]


def axis(marks: Sequence[AxisMark]) -> SafeString:
    """Their names, in a line."""
    last = len(marks) - 1
    apart = -(-last // _NARROW) or 1
    # One at the end is named in any case: as far from the others as they are from each other, or without the nearest.
    ends = anchor(marks[-1].share) == "at-end"
    if ends and last % apart and last % (apart + 1) == 0:
        apart += 1
    kept = {place for place in range(0, last + 1, apart) if not ends or last - place >= apart} | (
        {last} if ends else set()
    )
    names = format_html_join(
        "",
        '<text x="{}%" y="12" class="{}{}">{}</text>',
        (
            (percent(mark.share), anchor(mark.share), " kept" if place in kept else "", mark.name)
            for place, mark in enumerate(marks)
        ),
    )
    return format_html('<svg class="hours" height="17" aria-hidden="true">{}</svg>', names)


def _named(midnight: datetime, days: int, each: int, wall: Zone) -> Iterator[tuple[int, str]]:
    for hour in range(0, days * 24 + 1, each):
        local = midnight + timedelta(hours=hour)
        by_date = days > 1 and not local.hour
        yield wall.instant(local), f"{local.day} {local:%b}" if by_date else f"{local:%H:%M}"
