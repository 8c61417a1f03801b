"""The spans of a series: how long one is on a page or in an answer, and when each begins."""

from __future__ import annotations

from django.conf import settings

from engine.core.errors import BadInput
from engine.core.resolution import Resolution

#: Points of one answer.
MOST_POINTS = 2_000
_DAY_S = 86_400


def steps_of(start_s: int, end_s: int, resolution: Resolution) -> range:
    """When each span of it begins, of those that begin in a time. Raises :class:`BadInput` where they are too many."""
    step = resolution.seconds
    found = range(-(-start_s // step) * step, end_s, step)
    if len(found) > MOST_POINTS:
        raise BadInput(
            f"There are {len(found):,} points by the {resolution} in this time.",
            remedy=f"Ask for {MOST_POINTS:,} at most: for a shorter time, or a coarser resolution.",
            field="from",
        )
    return found


def resolution_for(start_s: int, end_s: int, now_s: int) -> Resolution:
    """The finest that a chart of a time shows, and that is kept of all of it."""
    days = {Resolution.MINUTE: settings.HBUS_SERIES_MINUTE_DAYS, Resolution.HOUR: settings.HBUS_SERIES_HOUR_DAYS}
    for resolution, longest_s in ((Resolution.MINUTE, _DAY_S), (Resolution.HOUR, 31 * _DAY_S)):
        kept_from = (now_s // _DAY_S - days[resolution] + 1) * _DAY_S
        if end_s - start_s <= longest_s and start_s >= kept_from:
            return resolution
    return Resolution.DAY


def resolution_named(said: str, default: Resolution) -> Resolution:
    """What an address asks for; raises :class:`BadInput` for what is none."""
    try:
        return Resolution(said or default)
    except ValueError as error:
        raise BadInput(
            f"There is no resolution {said[:20]!r}.",
            remedy=f"Use one of {', '.join(Resolution)}.",
            field="resolution",
        ) from error
