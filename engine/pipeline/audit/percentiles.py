"""What is told of durations: a few percentiles, and counts by bins of equal ratio, so that those of topics add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil

import msgspec

#: Bins for each doubling: a percentile that is read off them is off by 4.5 % at most.
PER_DOUBLING = 8


class Percentiles(msgspec.Struct, frozen=True, gc=False):
    """Of ``count`` durations, milliseconds; all ``None`` where there is none. The longest is exact."""

    count: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    p999: float | None = None
    longest: float | None = None
    #: How many there are by bin, those without any left out; see :func:`edge`.
    bins: Mapping[int, int] = {}


def edge(number: int) -> float:
    """Where a bin ends and the next begins, milliseconds. The first, 0, has what took less than one."""
    return float(2 ** (number / PER_DOUBLING))


def merged(parts: Iterable[Percentiles]) -> Percentiles:
    """Of all together."""
    bins: Counter[int] = Counter()
    longest = 0.0
    for part in parts:
        bins.update(part.bins)
        longest = max(longest, part.longest or 0.0)
    if not (count := bins.total()):
        return Percentiles(0)
    ordered = dict(sorted(bins.items()))
    p50, p95, p99, p999 = (
        min(_at(ordered, max(1, ceil(share * count))), longest) for share in (0.5, 0.95, 0.99, 0.999)
    )
    return Percentiles(count, p50, p95, p99, p999, longest, ordered)


def _at(bins: Mapping[int, int], rank: int) -> float:
    """The middle of the bin in which the one of that rank lies."""
    seen = 0
    for number, count in bins.items():
        seen += count
        if seen >= rank:
            return round(edge(number) / 2 ** (0.5 / PER_DOUBLING), 3) if number else 0.0
    raise ValueError(f"There are no {rank} durations, only {seen}.")
