"""Prometheus: counters from the facts of every role, gauges from the keeper, all on the web role's ``/metrics``.

The processes of one installation share the folder ``PROMETHEUS_MULTIPROC_DIR``, which the supervisor empties at the
start and names in the environment of every role before Python imports the client. Without it (a single process under
test) the page shows that process alone. Labels are topics and subscriptions, never keys or ids.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from itertools import groupby
from operator import attrgetter
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

from engine.core.facts import Fact, FactSink
from hbus_console.access.permissions import GLOBAL, visible_scopes
from hbus_console.cluster.feature import CLUSTER_VIEW
from hbus_console.messages.models import LagSample

#: More (topic, subscription) pairs than this are counted together as ``other``: a scrape must stay small.
MOST_LABELS = 2_000
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_PAIR = ("topic", "subscription")

PUBLISHED = Counter("hbus_published_total", "Messages appended to their topic.", ("topic",))
PUBLISH_FAILED = Counter("hbus_publish_failed_total", "Messages the store did not take, or not surely.", ("topic",))
DELAYED = Counter("hbus_delayed_total", "Messages stored until their due time.", ("topic",))
DEDUPLICATED = Counter("hbus_deduplicated_total", "Repeated publishes and deliveries that had no effect.", _PAIR)
SETTLED = Counter("hbus_settled_total", "Deliveries handled and acknowledged.", _PAIR)
RETRIED = Counter("hbus_retried_total", "Attempts that failed and were scheduled again.", _PAIR)
DEAD = Counter("hbus_dead_total", "Deliveries that became dead letters.", _PAIR)
EXPIRED = Counter("hbus_expired_total", "Messages that outlived their expiry.", _PAIR)
DROPPED = Counter("hbus_facts_dropped_total", "Evidence dropped because its queue was full.")
HANDLER = Histogram("hbus_handler_seconds", "Time in the handler of settled deliveries.", _PAIR, buckets=_BUCKETS_S)
UNSETTLED = Gauge("hbus_unsettled_messages", "Messages not settled yet.", _PAIR, multiprocess_mode="mostrecent")
OLDEST = Gauge(
    "hbus_oldest_unsettled_seconds", "Age of the oldest unsettled message.", _PAIR, multiprocess_mode="mostrecent"
)
BREAKER = Gauge(
    "hbus_breaker_state",
    "1 for the state in which the subscription's breaker is, 0 for the others.",
    (*_PAIR, "state"),
    multiprocess_mode="mostrecent",
)
BREAKER_STATES = ("closed", "open", "probing")

_OF_TOPIC = {"published": PUBLISHED, "delayed": DELAYED}
_OF_PAIR = {"deduplicated": DEDUPLICATED, "settled": SETTLED, "retried": RETRIED, "dead": DEAD, "expired": EXPIRED}
_PLACE = attrgetter("kind", "topic", "subscription")
_labels_seen: set[tuple[str, str]] = set()
_lag_shown: set[tuple[str, str]] = set()
_breakers_shown: set[tuple[str, str]] = set()


class CountingSink:
    """A fact sink that counts what passes to ``sink``. A batch offered again after an error is counted once."""

    def __init__(self, sink: FactSink) -> None:
        self._sink = sink
        self._counted: Sequence[Fact] | None = None

    def write(self, facts: Sequence[Fact]) -> None:
        # Counted first: the counters must go on while the store is away.
        if facts is not self._counted:
            count(facts)
            self._counted = facts
        self._sink.write(facts)
        self._counted = None


def count(facts: Iterable[Fact]) -> None:
    """Add ``facts`` to this process's counters."""
    tally: Tally[tuple[str, str, str]] = Tally()
    spent: dict[tuple[str, str], list[int]] = {}
    # Facts of a batch are mostly of one kind and place: counted in runs, each costs next to nothing.
    for (kind, topic, subscription), run in groupby(facts, _PLACE):
        if kind == "facts_dropped":
            DROPPED.inc(sum(fact.size for fact in run))
        elif kind == "publish_failed":
            PUBLISH_FAILED.labels(_bounded(topic, "")[0]).inc(sum(fact.size for fact in run))
        elif kind == "settled":
            durations = [fact.duration_us for fact in run]
            tally[kind, topic, subscription] += len(durations)
            spent.setdefault((topic, subscription), []).extend(durations)
        else:
            tally[kind, topic, subscription] += sum(1 for _ in run)
    for (kind, topic, subscription), number in tally.items():
        if kind in _OF_TOPIC:
            _OF_TOPIC[kind].labels(_bounded(topic, "")[0]).inc(number)
        elif kind in _OF_PAIR:
            _OF_PAIR[kind].labels(*_bounded(topic, subscription)).inc(number)
    for pair, durations in spent.items():
        _observe_all(HANDLER.labels(*_bounded(*pair)), durations)


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


def show_lag(samples: Iterable[LagSample], now_ms: int) -> None:
    """Set the gauges; a subscription that is no longer sampled becomes NaN, which Prometheus takes as no value."""
    shown: set[tuple[str, str]] = set()
    for sample in samples:
        pair = _bounded(sample.topic, sample.subscription)
        shown.add(pair)
        waiting = sample.waiting
        UNSETTLED.labels(*pair).set(
            math.nan if waiting is None else waiting + sample.in_flight + sample.retrying + sample.parked
        )
        OLDEST.labels(*pair).set(0 if sample.oldest_ms is None else max(0, now_ms - sample.oldest_ms) / 1000)
    for pair in _lag_shown - shown:
        UNSETTLED.labels(*pair).set(math.nan)
        OLDEST.labels(*pair).set(math.nan)
    _lag_shown.clear()
    _lag_shown.update(shown)


def show_breakers(states: Mapping[tuple[str, str], str]) -> None:
    """Set the gauges from each (topic, subscription)'s state; one that is no longer there becomes NaN, as above."""
    shown: set[tuple[str, str]] = set()
    for subscription, state in states.items():
        pair = _bounded(*subscription)
        shown.add(pair)
        for each in BREAKER_STATES:
            BREAKER.labels(*pair, each).set(each == state)
    for pair in _breakers_shown - shown:
        for each in BREAKER_STATES:
            BREAKER.labels(*pair, each).set(math.nan)
    _breakers_shown.clear()
    _breakers_shown.update(shown)


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


def _bounded(topic: str, subscription: str) -> tuple[str, str]:
    pair = (topic, subscription)
    if pair in _labels_seen:
        return pair
    if len(_labels_seen) >= MOST_LABELS:
        return "other", "other" if subscription else ""
    _labels_seen.add(pair)
    return pair
