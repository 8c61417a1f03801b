"""Prometheus: counters from the facts of every role, gauges of the features; :mod:`~.cluster.scrape` shows them all.

The processes of one installation share the folder ``PROMETHEUS_MULTIPROC_DIR``, which the supervisor empties at the
start and names in the environment of every role before Python imports the client. Labels are namespaces and names,
never keys or ids.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from prometheus_client import Counter, Gauge, Histogram

from engine.core.fact_kinds import FactKind
from engine.core.fact_sinks import SinkOnTheWay
from engine.core.facts import FactBatch
from hbus_console.evidence.kinds import kinds

#: More subjects than this are counted together as ``other``: a scrape must stay small.
MOST_LABELS = 2_000
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_labels_seen: set[tuple[str, str]] = set()


class CountingSink(SinkOnTheWay):
    """A fact sink that counts what passes; what is offered again after an error is counted once."""

    def note(self, facts: Sequence[FactBatch]) -> None:
        count(facts)


def count(facts: Iterable[FactBatch]) -> None:
    """Add ``facts`` to this process's counters."""
    counters = _counters()
    for batch in facts:
        found = counters.get(batch.kind)
        if found is None:
            continue
        declared = found.kind.counter
        subject = batch.subject
        place = bounded(subject.namespace if subject else "", subject.name if subject else "", len(declared.labels))
        counter, histogram = found.counter, found.histogram
        if place:
            counter, histogram = counter.labels(*place), histogram and histogram.labels(*place)
        counter.inc(sum(_numbers(batch, declared.adds)) if declared.adds else batch.count)
        if histogram is not None and found.kind.timer is not None:
            _observe_all(histogram, _numbers(batch, found.kind.timer.field))


def _numbers(batch: FactBatch, field: str) -> list[int]:
    column = getattr(batch.fields, field, 0)
    return list(column) if isinstance(column, list) else [column] * batch.count


@dataclass(frozen=True)
class _Counted:
    """A kind with what it is counted by."""

    kind: FactKind
    counter: Counter
    histogram: Histogram | None


@cache
def _counters() -> Mapping[str, _Counted]:
    """By kind; made on first use, for a process that emits nothing has nothing to count."""
    return {kind.name: _counted(kind) for kind in kinds().values()}


def _counted(kind: FactKind) -> _Counted:
    labels, timer = kind.counter.labels, kind.timer
    histogram = Histogram(timer.name, timer.says, labels, buckets=_BUCKETS_S) if timer else None
    return _Counted(kind, Counter(f"hbus_{kind.name}_total", kind.counter.says, labels), histogram)


def _observe_all(histogram: Histogram, durations_us: list[int]) -> None:
    """Observe many values at once. The client has no call for it, and one call a message would be half its cost."""
    durations_us.sort()
    histogram._sum.inc(sum(durations_us) / 1_000_000)
    done = 0
    for bound_s, bucket in zip(histogram._upper_bounds, histogram._buckets, strict=True):
        upto = bisect_right(durations_us, bound_s * 1_000_000)
        if upto > done:
            bucket.inc(upto - done)
        done = upto


def bounded(namespace: str, name: str, labels: int = 2) -> tuple[str, ...]:
    """The first so many of the two, while they are few enough to tell apart."""
    pair = (namespace if labels else "", name if labels > 1 else "")
    if pair not in _labels_seen:
        if len(_labels_seen) >= MOST_LABELS:
            pair = ("other", "other" if pair[1] else "")
        else:
            _labels_seen.add(pair)
    return pair[:labels]


class Gauges:
    """Gauges of things that come and go, with the same labels. Not for several threads."""

    def __init__(self, *gauges: Gauge) -> None:
        self._gauges = gauges
        self._shown: set[tuple[str, ...]] = set()

    def show(self, readings: Iterable[tuple[tuple[str, ...], Sequence[float]]]) -> None:
        """Set each gauge from labels and values; what is no longer read becomes NaN, which Prometheus takes as none."""
        shown = set()
        for labels, values in readings:
            shown.add(labels)
            for gauge, value in zip(self._gauges, values, strict=True):
                gauge.labels(*labels).set(value)
        for labels in self._shown - shown:
            for gauge in self._gauges:
                gauge.labels(*labels).set(math.nan)
        self._shown = shown
