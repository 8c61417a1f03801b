"""What a rule would have let through of traffic that is known by the minute alone.

Nobody remembers when within a minute each call came. So two answers are given, and the truth lies between: as if all of
a minute had come in its first moment, and as if they had come evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.quota.book import Rule
from engine.quota.periods import Period, period_at

_MINUTE_S = 60


@dataclass
class Foreseen:
    """Tokens. ``least`` if each minute's came at once, ``most`` if they came evenly."""

    asked: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add(self, other: Foreseen) -> None:
        self.asked += other.asked
        self.least += other.least
        self.most += other.most


def foresee(rule: Rule, asked: Mapping[int, float]) -> Foreseen:
    """What of ``asked``, tokens by the epoch second that a minute begins with, the rule would have let through: one
    bucket that was full before. Of a rule of seats nothing can be said: all would have gone.
    """
    if rule.period is Period.AT_ONCE:
        total = sum(asked.values())
        return Foreseen(total, total, total)
    if rule.by_calendar:
        return _by_calendar(rule, asked)
    found, room = Foreseen(), rule.room()
    at_once = evenly = room
    last = None
    for minute in sorted(asked):
        passed = 0.0 if last is None else (minute - last) * rule.limit
        at_once = min(room, at_once + passed)
        # What came in during the last minute was spent or kept by those who came in it.
        idle = 0.0 if last is None else max(0.0, passed - _MINUTE_S * rule.limit)
        evenly = min(room, evenly + idle)
        last = minute
        count = asked[minute]
        found.asked += count
        took = min(count, at_once)
        at_once -= took
        found.least += took
        took = min(count, evenly + _MINUTE_S * rule.limit)
        evenly = min(room, evenly + _MINUTE_S * rule.limit - took)
        found.most += took
    return found


def _by_calendar(rule: Rule, asked: Mapping[int, float]) -> Foreseen:
    found, left, period = Foreseen(), rule.limit, None
    for minute in sorted(asked):
        now = period_at(rule.period, rule.zone, minute * 1000)
        if now != period:
            period, left = now, rule.limit
        took = min(asked[minute], left)
        left -= took
        found.add(Foreseen(asked[minute], took, took))
    return found
