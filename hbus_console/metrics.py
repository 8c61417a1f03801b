"""Prometheus: counters from the facts of every role, gauges of the features; :mod:`~.cluster.scrape` shows them all.

The processes of one installation share a folder, see :mod:`~.metric_files`. Labels are namespaces and names, never keys
or ids.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from prometheus_client import Counter, Gauge, Histogram, Metric

from engine.core.clock import Clock, SystemClock
from engine.core.fact_kinds import FactCounter, FactKind
from engine.core.fact_sinks import SinkOnTheWay
from engine.core.facts import FactBatch
from hbus_console.evidence.freshness import Freshness
from hbus_console.evidence.kinds import kinds

#: More subjects than this are counted together as ``other``: a scrape must stay small.
MOST_LABELS = 2_000
OTHER = "other"
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
        if declared.by_fields:
            _count_by_fields(found.counter, batch, declared)
            continue
        subject = batch.subject
        place = bounded(subject.namespace if subject else "", subject.name if subject else "", len(declared.labels))
        counter, histogram = found.counter, found.histogram
        if place:
            counter, histogram = counter.labels(*place), histogram and histogram.labels(*place)
        counter.inc(sum(_numbers(batch, declared.adds)) if declared.adds else batch.count)
        if histogram is not None and found.kind.timer is not None:
            timer = found.kind.timer
            numbers = _numbers(batch, timer.field)
            _observe_all(histogram, [each for each in numbers if each] if timer.without_zeros else numbers)


def _count_by_fields(counter: Counter, batch: FactBatch, declared: FactCounter) -> None:
    columns = [getattr(batch.fields, label, "") for label in declared.labels]
    texts = [column if isinstance(column, list) else [column] * batch.count for column in columns]
    amounts = _numbers(batch, declared.adds) if declared.adds else [1] * batch.count
    for namespace, name, amount in zip(*texts, amounts, strict=True):
        counter.labels(*bounded(namespace, name)).inc(amount)


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
            pair = (OTHER, OTHER if pair[1] else "")
        else:
            _labels_seen.add(pair)
    return pair[:labels]


#: A gauge outlives the process that set it: from this one is told whether somebody still does.
_TIMESTAMP = "hbus_gauge_timestamp_seconds"
_SET = Gauge(
    _TIMESTAMP,
    "When a gauge of the keeper was set last, seconds since the epoch; one that is no longer set becomes NaN.",
    ("gauge",),
    multiprocess_mode="mostrecent",
)


def was_set(gauges: Iterable[Gauge], now_ms: int) -> None:
    """These gauges tell of ``now_ms``; :func:`current` takes them for known as long as that is young."""
    for gauge in gauges:
        (metric,) = gauge.describe()
        _SET.labels(metric.name).set(now_ms / 1000)


def current(metrics: Iterable[Metric], now_ms: int) -> Iterable[Metric]:
    """``metrics``, in which gauges that nobody sets any more are NaN."""
    found = list(metrics)
    stamps = [sample for metric in found if metric.name == _TIMESTAMP for sample in metric.samples]
    set_s = {sample.labels["gauge"]: sample.value for sample in stamps}
    for metric in found:
        at_s = set_s.get(metric.name)
        if at_s is not None and not Freshness.at(round(at_s * 1000), now_ms).known:
            metric.samples = [sample._replace(value=math.nan) for sample in metric.samples]
    return found


#: How what is beyond the limit is said together: the sum of it, or the largest.
Together = Callable[[Iterable[float]], float]


class Gauges:
    """Gauges of things that come and go, with the same labels: namespace, name, perhaps more. Not for several threads.

    Only :data:`MOST_LABELS` things are told apart, those first that were before; what the rest are ``together`` stands
    under ``other``.
    """

    def __init__(self, together: Mapping[Gauge, Together], clock: Clock | None = None) -> None:
        self._together = together
        self._clock = clock or SystemClock()
        self._shown: set[tuple[str, ...]] = set()

    def show(self, readings: Iterable[tuple[tuple[str, ...], Sequence[float]]]) -> None:
        """Set each gauge from labels and values, NaN for what nobody knows; what is no longer read becomes NaN, which
        Prometheus takes as none.
        """
        found = dict(readings)
        apart = self._apart(found)
        shown: dict[tuple[str, ...], list[Sequence[float]]] = {}
        for labels, values in found.items():
            thing, more = labels[:2], labels[2:]
            shown.setdefault(labels if thing in apart else (OTHER, OTHER, *more), []).append(values)
        for labels, rows in shown.items():
            for (gauge, together), column in zip(self._together.items(), zip(*rows, strict=True), strict=True):
                known = [value for value in column if not math.isnan(value)]
                gauge.labels(*labels).set(together(known) if known else math.nan)
        for labels in self._shown - shown.keys():
            for gauge in self._together:
                gauge.labels(*labels).set(math.nan)
        self._shown = set(shown)
        was_set(self._together, self._clock.now_ms())

    def _apart(self, found: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
        things = dict.fromkeys(labels[:2] for labels in found)
        before = {labels[:2] for labels in self._shown}
        return set(sorted(things, key=lambda thing: thing not in before)[:MOST_LABELS])
