"""Bins of equal ratio for durations, 64 for each doubling: counts add up, and a percentile is off by 1 % at most."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log2

PER_OCTAVE = 64


def bin_of(ms: float) -> int:
    """The first, 0, is that of less than 1 ms."""
    return 1 + floor(log2(ms) * PER_OCTAVE) if ms >= 1 else 0


def middle_of(number: int) -> float:
    """What stands for all durations of a bin, milliseconds."""
    return 0.0 if number == 0 else float(round(2 ** ((number - 0.5) / PER_OCTAVE), 3))


def percentile(bins: Mapping[int, int], part: float, longest: float) -> float | None:
    """That below which ``part`` of the durations lie, of counts by bin, and never more than the longest of them,
    milliseconds; ``None``: there is none."""
    rank, seen = max(1, ceil(part * sum(bins.values()))), 0
    for number in sorted(bins):
        seen += bins[number]
        if seen >= rank:
            return min(middle_of(number), longest)
    return None
