"""Prometheus: counters from the facts of every role, gauges of the features, all on the web role's ``/metrics``.

The processes of one installation share the folder ``PROMETHEUS_MULTIPROC_DIR``, which the supervisor empties at the
start and names in the environment of every role before Python imports the client. Without it (a single process under
test) the page shows that process alone. Labels are namespaces and names, never keys or ids.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from engine.core.fact_kinds import FactKind
from engine.core.fact_sinks import SinkOnTheWay
from engine.core.facts import FactBatch
from hbus_console.access.permissions import GLOBAL, visible_scopes
from hbus_console.cluster.feature import CLUSTER_VIEW
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


@never_cache
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """``/metrics``, for this machine, or for a token whose scope is ``*``: it names every topic.

    A request that came through a proxy is never taken for one of this machine.
    """
    if not (_from_this_machine(request) or _sees_everything(request)):
        answer = HttpResponse(
            "Metrics are for this machine, or for an API token of role viewer with scope *.\n",
            content_type="text/plain",
            status=HTTPStatus.UNAUTHORIZED,
        )
        answer["WWW-Authenticate"] = "Bearer"
        return answer
    return HttpResponse(generate_latest(_registry()), content_type=CONTENT_TYPE_LATEST)


def _registry() -> Any:
    if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


def _from_this_machine(request: HttpRequest) -> bool:
    if "Forwarded" in request.headers or "X-Forwarded-For" in request.headers:
        return False
    return request.META.get("REMOTE_ADDR") in {"127.0.0.1", "::1"}


def _sees_everything(request: HttpRequest) -> bool:
    from hbus_console.accounts import services
    from hbus_console.accounts.actors import actor_of_token

    scheme, _, raw = request.headers.get("Authorization", "").partition(" ")
    token = services.authenticate_token(raw.strip()) if scheme.lower() == "bearer" else None
    return token is not None and GLOBAL in visible_scopes(actor_of_token(token), CLUSTER_VIEW)
