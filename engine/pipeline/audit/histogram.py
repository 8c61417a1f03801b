"""Durations in bins of equal ratio, 64 for each doubling: counts add up, and a percentile is off by 1 % at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.bins import PER_OCTAVE, middle_of
from engine.pipeline.audit.percentiles import PER_DOUBLING, Percentiles

#: Durations of up to 2**62 ms have one of these, the first being that of none at all.
BINS = 1 + 62 * PER_OCTAVE


@dataclass(slots=True)
class Durations:
    """Counts by bin. Not thread-safe."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    longest: float = 0.0

    def merge(self, others: Iterable[Durations]) -> None:
        for other in others:
            self.counts += other.counts
            self.longest = max(self.longest, other.longest)

    def percentiles(self) -> Percentiles:
        count = int(self.counts.sum())
        if not count:
            return Percentiles(0)
        edges = np.cumsum(self.counts)
        ranks = [max(1, int(np.ceil(part * count))) for part in (0.5, 0.95, 0.99, 0.999)]
        p50, p95, p99, p999 = (min(middle_of(int(np.searchsorted(edges, rank))), self.longest) for rank in ranks)
        return Percentiles(count, p50, p95, p99, p999, self.longest, self._bins())

    def _bins(self) -> dict[int, int]:
        fine = np.flatnonzero(self.counts)
        coarse = np.where(fine > 0, 1 + (fine - 1) * PER_DOUBLING // PER_OCTAVE, 0)
        counts = np.bincount(coarse, weights=self.counts[fine]).astype(np.int64)
        return {int(number): int(counts[number]) for number in np.flatnonzero(counts)}


def durations(ms: NDArray[Any]) -> Durations:
    """What is below 0 is taken for 0: clocks differ."""
    if not len(ms):
        return Durations()
    return Durations(np.bincount(bins_of(ms.astype(np.float64)), minlength=BINS), max(0.0, float(ms.max())))


def bins_of(ms: NDArray[np.float64]) -> NDArray[np.int64]:
    """The first is that of less than 1 ms."""
    return np.where(ms >= 1, 1 + np.floor(np.log2(np.maximum(ms, 1)) * PER_OCTAVE), 0).astype(np.int64)
