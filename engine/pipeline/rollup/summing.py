"""The series of one day of one topic: a pure function of the sides of its files.

File after file is summed into counts by minute, so that no more than one of them is in memory; hours and days are sums
of minutes, and their percentiles come from sums of the same bins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.bins import middle_of
from engine.core.resolution import Resolution
from engine.pipeline.audit.histogram import BINS, bins_of
from engine.pipeline.audit.sides import Side
from engine.pipeline.audit.summing import COPY, DUE, NONE, SKEWED
from engine.pipeline.rollup.publishes import UNKNOWN, published_before
from engine.pipeline.rollup.series import WHOLE_TOPIC, SeriesCounts, SeriesRow

MINUTES = 1_440
_KINDS = ("settled", "retried", "dead")

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DaySides:
    """Those of its files, by what their rows are."""

    #: Seconds since the epoch.
    start_s: int
    messages: Sequence[Side]
    published: Sequence[Side]
    deliveries: Sequence[Side]
    #: Of what was published and stored in it and in the days before it, day by day, the latest first.
    before: Sequence[Sequence[Side]]


@dataclass(slots=True)
class _Times:
    """How often each duration was, by minute: a row for each bin of each minute that has any."""

    #: ``minute * BINS + bin``.
    places: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    counts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    longest: NDArray[np.float64] = field(default_factory=lambda: np.zeros(MINUTES))

    def add(self, minutes: Ints, ms: Ints) -> None:
        """What is below 0 is taken for 0: clocks differ."""
        took: NDArray[np.float64] = np.maximum(ms, 0).astype(np.float64)
        places = np.concatenate([self.places, minutes * BINS + bins_of(took)])
        counts = np.concatenate([self.counts, np.ones(len(took), np.int64)])
        self.places, self.counts = _summed(places, counts)
        np.maximum.at(self.longest, minutes, took)

    def by(self, minutes: int) -> Mapping[int, tuple[int, float, float, float]]:
        """By slot of so many minutes: how many, the middle one, that below which 99 % lie, and the longest."""
        if not len(self.places):
            return {}
        places, counts = _summed(self.places // BINS // minutes * BINS + self.places % BINS, self.counts)
        slots, starts = np.unique(places // BINS, return_index=True)
        longest = self.longest.reshape(-1, minutes).max(axis=1)
        found: dict[int, tuple[int, float, float, float]] = {}
        for slot, start, end in zip(slots.tolist(), starts.tolist(), [*starts[1:].tolist(), len(places)], strict=True):
            edges, bins = np.cumsum(counts[start:end]), places[start:end] % BINS
            count, most = int(edges[-1]), float(longest[slot])
            ranks = [max(1, int(np.ceil(part * count))) for part in (0.5, 0.99)]
            p50, p99 = (min(middle_of(int(bins[np.searchsorted(edges, rank)])), most) for rank in ranks)
            found[slot] = count, p50, p99, most
        return found


@dataclass(slots=True)
class _Tally:
    """Of the topic, or of one subscription, by minute."""

    counts: dict[str, Ints] = field(default_factory=dict)
    took: _Times = field(default_factory=_Times)
    late: _Times = field(default_factory=_Times)

    def add(self, name: str, minutes: Ints, weights: Ints | None = None) -> None:
        if len(minutes):
            of_it = self.counts.setdefault(name, np.zeros(MINUTES, np.int64))
            # Whole numbers, for a float is not exact beyond 2**53 bytes.
            np.add.at(of_it, minutes, 1 if weights is None else weights)

    def rows(self, subscription: str, start_s: int, resolution: Resolution) -> Iterator[SeriesRow]:
        """Of those slots in which there was anything."""
        minutes = resolution.seconds // 60
        sums = {name: values.reshape(-1, minutes).sum(axis=1) for name, values in self.counts.items()}
        took, late = self.took.by(minutes), self.late.by(minutes)
        used = sorted({int(slot) for values in sums.values() for slot in np.flatnonzero(values)})
        for slot in used:
            found: dict[str, Any] = {name: int(values[slot]) for name, values in sums.items()}
            if slot in took:
                found |= dict(zip(("timed", "p50_ms", "p99_ms", "longest_ms"), took[slot], strict=True))
            if slot in late:
                found |= dict(zip(("late_p50_ms", "late_p99_ms"), late[slot][1:3], strict=True))
            at = start_s + slot * resolution.seconds
            yield SeriesRow(subscription, resolution, at, SeriesCounts(**found))


def series_of(day: DaySides, resolutions: Collection[Resolution] = tuple(Resolution)) -> list[SeriesRow]:
    """Ordered by resolution, subscription and time."""
    tallies: dict[str, _Tally] = {WHOLE_TOPIC: _Tally()}
    for side in day.messages:
        _messages(tallies[WHOLE_TOPIC], side, day.start_s)
    for side in day.published:
        tallies[WHOLE_TOPIC].add("published", _minutes(side.columns["at"], day.start_s))
    for side in day.deliveries:
        _deliveries(tallies, side, day)
    return [
        row
        for resolution in Resolution
        if resolution in resolutions
        for name in sorted(tallies)
        for row in tallies[name].rows(name, day.start_s, resolution)
    ]


def _messages(tally: _Tally, side: Side, start_s: int) -> None:
    columns = side.columns
    for prefix in ("", "odd_"):
        minutes = _minutes(columns[f"{prefix}stored"], start_s)
        tally.add("stored", minutes)
        tally.add("bytes", minutes, columns[f"{prefix}size"])
    flags = columns["flags"]
    minutes = _minutes(columns["stored"], start_s)
    tally.add("skewed", minutes[(flags & SKEWED) > 0])
    # A copy, and what waited for its time, happened long before by right.
    told = np.flatnonzero((flags & (COPY | DUE | SKEWED)) == 0)
    tally.late.add(minutes[told], columns["stored"][told] - columns["at"][told])


def _deliveries(tallies: dict[str, _Tally], side: Side, day: DaySides) -> None:
    names, columns = side.names["subscription"], side.columns
    for prefix in ("", "odd_"):
        minutes = _minutes(columns[f"{prefix}at"], day.start_s)
        subscriptions, kinds = columns[f"{prefix}subscription"], columns[f"{prefix}kind"]
        for kind in set(_KINDS) & set(side.names["kind"]):
            of_kind = kinds == side.names["kind"].index(kind)
            tallies[WHOLE_TOPIC].add(kind, minutes[of_kind])
            for number, name in enumerate(names):
                tallies.setdefault(name, _Tally()).add(kind, minutes[of_kind & (subscriptions == number)])
    if "settled" not in side.names["kind"]:
        return
    rows = np.flatnonzero(columns["kind"] == side.names["kind"].index("settled"))
    began = published_before(side, rows, day.before)
    rows, began = rows[began != UNKNOWN], began[began != UNKNOWN]
    minutes, took = _minutes(columns["at"][rows], day.start_s), columns["at"][rows] - began
    tallies[WHOLE_TOPIC].took.add(minutes, took)
    for number in np.unique(columns["subscription"][rows]).tolist():
        if number != NONE:
            which = columns["subscription"][rows] == number
            tallies[names[number]].took.add(minutes[which], took[which])


def _minutes(at_ms: Ints, start_s: int) -> Ints:
    return at_ms // 60_000 - start_s // 60


def _summed(places: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Each place once, sorted, with the sum of its counts."""
    ordered, which = np.unique(places, return_inverse=True)
    sums = np.zeros(len(ordered), np.int64)
    np.add.at(sums, which, counts)
    return ordered, sums
