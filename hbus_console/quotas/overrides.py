"""Times at which a policy has another limit: a sale at noon, a night of imports.

A line each: ``2026-11-27T00:00..2026-11-28T06:00 120 burst 400 black friday`` is 120 in place of the limit and 400 in
place of the burst (without ``burst``: as much in proportion) from one moment to another of the policy's time zone, and
words on why. A moment that its zone skips or has twice is the earlier of what it can be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

from engine.core.errors import BadInput
from hbus_console.checks import MOST_NUMBER

#: Lines of one policy.
MOST_OVERRIDES = 50
_MOMENT = r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})"
_LINE = re.compile(rf"{_MOMENT}\.\.{_MOMENT}\s+(\d+(?:\.\d+)?)(?:\s+burst\s+(\d+(?:\.\d+)?))?(?:\s+(.*))?")
_EXAMPLE = "For example 2026-11-27T00:00..2026-11-28T06:00 120 burst 400 black friday."


@dataclass(frozen=True, slots=True)
class Override:
    """Another limit from one moment to another, in epoch milliseconds; the last one is not in it."""

    from_ms: int
    to_ms: int
    limit: float
    #: ``None``: as much of the policy's as the limit is of its limit.
    burst: float | None
    words: str

    def burst_of(self, limit: float, burst: float) -> float:
        """Its burst, in place of a policy's of that ``limit`` and ``burst``."""
        if self.burst is not None:
            return self.burst
        return min(MOST_NUMBER, burst * self.limit / limit) if limit else burst

    def holds(self, at_ms: int) -> bool:
        return self.from_ms <= at_ms < self.to_ms


def read_overrides(text: str, zone: str) -> tuple[Override, ...]:
    """The lines in the order of their times. Raises ``BadInput`` naming the line that is none, or is in another."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MOST_OVERRIDES:
        raise _refused(f"These are {len(lines)} lines.", f"A policy has {MOST_OVERRIDES} at most.")
    found = sorted((_read(line, zone) for line in lines), key=lambda each: each.from_ms)
    for one, other in pairwise(found):
        if other.from_ms < one.to_ms:
            raise _refused(
                f"{other.words or 'One line'} begins before {one.words or 'another'} ends.",
                "Let one end before the next begins.",
            )
    return tuple(found)


def override_at(overrides: Sequence[Override], at_ms: int) -> Override | None:
    """The one that holds at a moment."""
    return next((each for each in overrides if each.holds(at_ms)), None)


def next_change(overrides: Sequence[Override], after_ms: int) -> int | None:
    """When the next one begins or ends, in epoch milliseconds."""
    moments = (moment for each in overrides for moment in (each.from_ms, each.to_ms))
    return min((moment for moment in moments if moment > after_ms), default=None)


def _read(line: str, zone: str) -> Override:
    found = _LINE.fullmatch(line)
    if found is None:
        raise _refused(f"{line[:80]!r} is no time with a limit.", _EXAMPLE)
    from_text, to_text, limit, burst, words = found.groups()
    from_ms, to_ms = _moment(from_text, zone), _moment(to_text, zone)
    if from_ms >= to_ms:
        raise _refused(f"{line[:80]!r} ends before it begins.", "Write the earlier moment first.")
    return Override(from_ms, to_ms, _amount(limit), None if burst is None else _amount(burst), words or "")


def _amount(text: str) -> float:
    amount = float(text)
    if amount > MOST_NUMBER:
        raise _refused(f"{text[:40]} is no limit.", f"Write {MOST_NUMBER:,} at most.")
    return amount


def _moment(text: str, zone: str) -> int:
    try:
        return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=0).timestamp() * 1000)
    except ValueError as error:
        raise _refused(f"{text} is no moment.", _EXAMPLE) from error


def _refused(what: str, remedy: str) -> BadInput:
    return BadInput(what, remedy=remedy, field="overrides")
