"""Counts of runs that add up: of a minute they are counted, of its hour and day they are added, and put right later."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.core.bins import bin_of, percentile
from engine.cron.slots.steps import RunState
from hbus_console.jobs.models import JobRun

#: How a run is counted that is over.
ENDS = {
    RunState.DONE: "done",
    RunState.FAILED: "failed",
    RunState.SKIPPED: "skipped",
    RunState.LOST: "lost",
    RunState.ABANDONED: "abandoned",
    RunState.CANCELLED: "cancelled",
}
COUNTS = ("runs", "begun", *ENDS.values(), "open", "retried")
_PERCENTILES = ("late_p50_ms", "late_p99_ms", "late_longest_ms", "p50_ms", "p99_ms", "longest_ms")
#: All that a point says of its span.
COLUMNS = (*COUNTS, *_PERCENTILES, "late_bins", "took_bins", "changed_us")
#: The number of a bin, and how many are in it.
_BIN = struct.Struct("<HI")


@dataclass(slots=True)
class DurationBins:
    """How often each duration was, by bins that add up. Not thread-safe."""

    bins: Counter[int] = field(default_factory=Counter)
    #: Exact, milliseconds.
    longest: float = 0.0

    @classmethod
    def unpacked(cls, packed: bytes, longest: float | None) -> DurationBins:
        """As :meth:`packed` wrote it."""
        return cls(Counter(dict(_BIN.iter_unpack(packed))), longest or 0.0)

    def packed(self) -> bytes:
        """Those bins that have any, in order."""
        return b"".join(_BIN.pack(number, count) for number, count in sorted(self.bins.items()) if count > 0)

    def add(self, us: int) -> None:
        """One more, in microseconds."""
        self.bins[bin_of(us / 1_000)] += 1
        self.longest = max(self.longest, us / 1_000)

    def change(self, was: DurationBins, now: DurationBins) -> None:
        """Have a part of what is counted be another one: its longest is never less than before."""
        self.bins.update(now.bins)
        self.bins.subtract(was.bins)
        self.longest = max(self.longest, now.longest)

    def told(self) -> tuple[float | None, float | None, float | None]:
        """The middle one, that below which 99 % lie, and the longest."""
        bins = +self.bins
        most = round(self.longest, 3)
        return percentile(bins, 0.5, most), percentile(bins, 0.99, most), most if bins else None


@dataclass(slots=True)
class JobTally:
    """The runs of one job in one span. Not thread-safe."""

    counts: Counter[str] = field(default_factory=Counter)
    late: DurationBins = field(default_factory=DurationBins)
    took: DurationBins = field(default_factory=DurationBins)
    #: When the last of them changed.
    changed_us: int = 0

    @classmethod
    def of(cls, point: Mapping[str, Any]) -> JobTally:
        """What a point was made of, by its :data:`COLUMNS`."""
        return cls(
            Counter({name: point[name] for name in COUNTS}),
            DurationBins.unpacked(point["late_bins"], point["late_longest_ms"]),
            DurationBins.unpacked(point["took_bins"], point["longest_ms"]),
            point["changed_us"],
        )

    @property
    def over(self) -> int:
        """Runs of which nothing becomes any more."""
        return self.counts["runs"] - self.counts["open"]

    def add(self, run: JobRun) -> None:
        """Count one run as it stands."""
        late_us = run.late_us
        self.changed_us = max(self.changed_us, run.changed_us)
        self.counts["runs"] += 1
        # Between two attempts it bears no beginning.
        self.counts["begun"] += run.begun_us is not None or run.first_late_us is not None or run.attempt > 1
        self.counts["retried"] += run.attempt - 1
        self.counts["open" if run.ended_us is None else ENDS[RunState(run.state)]] += 1
        if late_us is not None:
            self.late.add(late_us)
        if run.ended_us is not None and run.begun_us is not None:
            self.took.add(max(0, run.ended_us - run.begun_us))

    def change(self, was: JobTally, now: JobTally) -> None:
        """Have a part of what is counted be another one."""
        self.counts.update(now.counts)
        self.counts.subtract(was.counts)
        self.late.change(was.late, now.late)
        self.took.change(was.took, now.took)

    def values(self) -> tuple[Any, ...]:
        """Those of :data:`COLUMNS`."""
        counts = (self.counts[name] for name in COUNTS)
        bins = self.late.packed(), self.took.packed()
        return (*counts, *self.late.told(), *self.took.told(), *bins, self.changed_us)
