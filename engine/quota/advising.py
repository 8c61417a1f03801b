"""How much a rule would have to allow so that hardly anything of what came would have been refused: a curve.

Traffic is known by the minute alone, so each point has two answers, as :mod:`engine.quota.preview` gives them: as if
each minute's tokens had come at once, and as if they had come evenly. What is recommended holds in the worse case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

import msgspec

from engine.quota.periods import Period
from engine.quota.preview import Foreseen, foresee
from engine.quota.rule import Rule

#: What may be refused of all that is asked.
TOLERATED = 0.001
#: Points of a curve.
POINTS = 12
_MINUTE_S = 60


class RatePoint(msgspec.Struct, frozen=True, gc=False):
    """What a rule of that limit and burst would have refused, as a share of what was asked."""

    limit: float
    burst: float
    #: If each minute's came evenly, and if they came at once.
    least: float
    most: float


class RateAdvice(msgspec.Struct, frozen=True, gc=False):
    """Of some tenants, each held to a bucket of its own."""

    asked: float
    #: From a quarter of the mean of the busiest tenant to its busiest minute, each with room for a minute at its limit.
    curve: Sequence[RatePoint]
    #: The smallest limit of the curve that refuses less than :data:`TOLERATED`, with the smallest burst that does.
    recommended: RatePoint


def advise(rule: Rule, came: Sequence[Mapping[int, float]]) -> RateAdvice | None:
    """``came``: by tenant, tokens by the epoch second that a minute begins with. ``None``: nothing came, or the rule
    counts by days, months or seats, and so has no rate."""
    came = [asked for asked in came if sum(asked.values()) > 0]
    if rule.period is not Period.NONE or not came:
        return None
    curve = [_point(rule, limit, limit * _MINUTE_S, came) for limit in _limits(came)]
    # With room for its busiest minute, and filled again within one, nobody is refused: the last point fits.
    fits = next(point for point in curve if point.most < TOLERATED)
    low, high = 0.0, fits.burst
    while high - low > max(1.0, 0.01 * high):
        middle = (low + high) / 2
        if _point(rule, fits.limit, middle, came).most < TOLERATED:
            high = middle
        else:
            low = middle
    burst = min(fits.burst, _rounded(high))
    return RateAdvice(sum(sum(asked.values()) for asked in came), curve, _point(rule, fits.limit, burst, came))


def _limits(came: Sequence[Mapping[int, float]]) -> list[float]:
    """A few at equal ratios, in two digits."""
    highest = max(max(asked.values()) for asked in came) / _MINUTE_S
    mean = max(sum(asked.values()) / (max(asked) - min(asked) + _MINUTE_S) for asked in came)
    # Also below what can be enough: what a smaller limit costs is asked as well.
    lowest = min(highest, mean) / 4
    steps = [lowest * (highest / lowest) ** (number / (POINTS - 1)) for number in range(POINTS)]
    return sorted({_rounded(step) for step in (*steps, min(highest, mean))})


def _point(rule: Rule, limit: float, burst: float, came: Sequence[Mapping[int, float]]) -> RatePoint:
    tried, found = msgspec.structs.replace(rule, limit=limit, burst=burst), Foreseen()
    for asked in came:
        found.add(foresee(tried, asked))
    return RatePoint(limit, burst, 1 - found.most / found.asked, 1 - found.least / found.asked)


def _rounded(value: float) -> float:
    """Up, to two digits."""
    digits = 1 - floor(log10(value))
    # By a whole power either way: of a negative one a float is not exact.
    scaled = value * 10**digits if digits >= 0 else value / 10**-digits
    up = ceil(round(scaled, 9))
    return float(up / 10**digits if digits >= 0 else up * 10**-digits)
