"""What flows: rates now, series for charts, and where the subscriptions stand. Every function is one or two queries
on an index, however many messages the ledger holds.

``scopes`` are an actor's scopes, see :func:`hbus_console.access.permissions.visible_scopes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from django.db import connections
from django.db.models import F, Max, Q, QuerySet, Sum

from engine.bus.subjects import subscription_subject
from engine.core.clock import SystemClock
from engine.core.subject import Subject
from hbus_console.evidence.freshness import Freshness
from hbus_console.evidence.router import LEDGER
from hbus_console.evidence.totals import mass
from hbus_console.messages.models import FINE_MS, Flow, FlowRollup, FlowSample, LagSample
from hbus_console.topics.scopes import topic_filter

BUCKET_MS = FlowSample.BUCKET_S * 1000
ROLLUP_MS = FlowRollup.BUCKET_S * 1000
#: Longer spans are read from the roll-up.
LONG_MS = 6 * 3_600_000
#: Rates are a mean over this many of the last complete buckets, in which the newest weighs most: with equal weights
#: what came in one bucket would stand as a rate for half a minute after nothing comes any more.
RATE_BUCKETS = 3
#: A chart has at most so many points.
POINTS = 240
#: A lag older than this, counted back from the newest sample, belongs to a subscription that is gone.
LAG_MEMORY_MS = 60_000

_COUNTS = ("published", "deduplicated", "settled", "settled_first", "retried", "dead", "expired", "duration_us")
#: A row's time in handlers is whatever its facts said, and many such rows run over 64 bits.
_SUMS = {f"sum_{name}": mass(name) if name == "duration_us" else Sum(name) for name in _COUNTS}
#: What is told as a rate of its own.
_RATES = ("published", "settled", "retried", "dead", "deduplicated", "expired")
#: The weights of all buckets, times the seconds that each lasts.
_WEIGHTS = RATE_BUCKETS * (RATE_BUCKETS + 1) // 2 * FlowSample.BUCKET_S
#: The columns of a lag sample in the order of :class:`LagNow`.
_LAG = ("topic", "subscription", "at_ms", "waiting", "in_flight", "retrying", "oldest_ms", "parked")

_clock = SystemClock()


@dataclass(frozen=True)
class Rates:
    """Messages a second; ``None``: nobody knows."""

    published: float | None = 0.0
    settled: float | None = 0.0
    retried: float | None = 0.0
    dead: float | None = 0.0
    deduplicated: float | None = 0.0
    expired: float | None = 0.0
    #: Share of the settled ones that needed one attempt, 0 to 1; ``None`` when nothing was settled.
    first_attempt: float | None = None
    #: Mean time in the handler; ``None`` when nothing was settled.
    handler_us: int | None = None

    @property
    def failed_share(self) -> float | None:
        """Share of the attempts that failed, 0 to 1; ``None`` without an attempt, or while nobody knows."""
        if self.settled is None or self.retried is None or self.dead is None:
            return None
        failed = self.retried + self.dead
        return failed / (self.settled + failed) if failed or self.settled else None


@dataclass(frozen=True)
class Attempts:
    """How often messages were handed to a handler, as far as it came to an end, and how often that failed."""

    total: int = 0
    failed: int = 0

    @property
    def failed_share(self) -> float | None:
        """0 to 1; ``None`` without an attempt."""
        return self.failed / self.total if self.total else None


#: Of what nothing flows.
STILL = Rates()
#: While the facts are not booked.
NOT_KNOWN = Rates(**dict.fromkeys((each.name for each in fields(Rates)), None))


@dataclass(frozen=True)
class FlowNow:
    """The rates of the last half minute, see :func:`rates`: in all, by topic, and by (topic, subscription)."""

    total: Rates
    topics: dict[str, Rates]
    subscriptions: dict[tuple[str, str], Rates]
    #: Of all topics and subscriptions that are not named.
    rest: Rates = STILL

    def topic(self, name: str) -> Rates:
        return self.topics.get(name, self.rest)

    def subscription(self, topic: str, group: str) -> Rates:
        return self.subscriptions.get((topic, group), self.rest)


@dataclass(frozen=True)
class Series:
    """Rates over time. ``t`` holds epoch seconds at which each slot of ``step_s`` seconds begins."""

    step_s: int
    t: list[int] = field(default_factory=list)
    published: list[float] = field(default_factory=list)
    settled: list[float] = field(default_factory=list)
    retried: list[float] = field(default_factory=list)
    dead: list[float] = field(default_factory=list)
    #: Mean handler milliseconds of each slot; ``None`` where nothing was settled.
    handler_ms: list[float | None] = field(default_factory=list)
    settled_total: int = 0
    settled_first_total: int = 0
    retried_total: int = 0
    dead_total: int = 0

    @property
    def failed(self) -> list[float]:
        """Failed attempts a second: those that are repeated, and the last ones."""
        return [again + last for again, last in zip(self.retried, self.dead, strict=True)]

    @property
    def first_attempt(self) -> float | None:
        """Share settled at the first attempt over the whole time, 0 to 1; see :func:`first_share`."""
        return first_share(self.settled_total, self.settled_first_total, self.retried_total, self.dead_total)

    def peak(self, name: str) -> tuple[float, int]:
        """The highest rate of ``name`` and the epoch milliseconds of its slot; (0, 0) when empty."""
        values: list[float] = getattr(self, name)
        if not values or not (best := max(values)):
            return 0.0, 0
        return best, self.t[values.index(best)] * 1000


@dataclass(frozen=True)
class LagNow:
    """Where one subscription stands, by its last reading. Of an old one is left when it was: how many wait and since
    when is not known any more.
    """

    topic: str
    subscription: str
    at_ms: int
    waiting: int | None
    in_flight: int
    retrying: int
    oldest_ms: int | None
    parked: int = 0
    old: bool = False

    @classmethod
    def read(cls, sampled: tuple[Any, ...], now_ms: int) -> LagNow:
        """From the columns :data:`_LAG`."""
        found = cls(*sampled)
        if Freshness.at(found.at_ms, now_ms).known:
            return found
        return replace(found, waiting=None, in_flight=0, retrying=0, oldest_ms=None, parked=0, old=True)

    @property
    def subject(self) -> Subject:
        return subscription_subject(self.topic, self.subscription)

    @property
    def unsettled(self) -> int | None:
        """What it has not settled; ``None`` when the store cannot tell, or nobody has asked it lately."""
        return None if self.waiting is None else self.waiting + self.in_flight + self.retrying + self.parked


@dataclass(frozen=True)
class LagSeries:
    """Unsettled messages over time; ``None`` where nothing was sampled."""

    step_s: int
    t: list[int]
    unsettled: list[int | None]


def rates(now_ms: int, scopes: Sequence[str], booked: Freshness) -> FlowNow:
    """Rates of the last :data:`RATE_BUCKETS` complete buckets before ``now_ms``: each weighs one more than the one
    before it, so that a rate falls with every bucket in which nothing comes. Shares and times are of all three alike.
    While facts are not ``booked`` there are none: what nobody has booked did not stop to flow.
    """
    if not booked.known:
        return FlowNow(NOT_KNOWN, {}, {}, NOT_KNOWN)
    end_ms = now_ms - now_ms % BUCKET_MS
    start_ms = end_ms - RATE_BUCKETS * BUCKET_MS
    # Of the oldest bucket 1, of the next 2, and so on.
    weight = (F("bucket_ms") - (start_ms - BUCKET_MS)) / BUCKET_MS
    weighed = {f"weighed_{name}": Sum(F(name) * weight) for name in _RATES}
    rows = _samples(start_ms, end_ms, scopes).values_list("topic", "subscription").annotate(**_SUMS, **weighed)
    columns = (*_COUNTS, *weighed)
    total = dict.fromkeys(columns, 0)
    topics: dict[str, dict[str, int]] = {}
    subscriptions: dict[tuple[str, str], Rates] = {}
    for name_of_topic, group, *sums in rows:
        counts = dict(zip(columns, sums, strict=True))
        topic = topics.setdefault(name_of_topic, dict.fromkeys(columns, 0))
        for name, count in counts.items():
            topic[name] += count
            total[name] += count
        if group:
            subscriptions[name_of_topic, group] = _rates(counts)
    return FlowNow(
        total=_rates(total),
        topics={name: _rates(counts) for name, counts in topics.items()},
        subscriptions=subscriptions,
    )


def series(start_ms: int, end_ms: int, scopes: Sequence[str], topic: str = "", subscription: str = "") -> Series:
    """Rates from ``start_ms`` to ``end_ms`` in at most about :data:`POINTS` slots, empty slots as zero.

    With ``topic`` it is that topic's traffic; with ``subscription`` as well, ``published`` is still the topic's and
    everything else that subscription's.
    """
    step_ms, first, count = _slots(start_ms, end_ms)
    rows = _samples(first * step_ms, (first + count) * step_ms, scopes, _is_long(start_ms, end_ms))
    if topic:
        rows = rows.filter(topic=topic)
    if subscription:
        rows = rows.filter(subscription__in=["", subscription])
    step_s = step_ms // 1000
    counts = {name: [0] * count for name in _COUNTS}
    for number, *sums in rows.values_list(F("bucket_ms") / step_ms).annotate(**_SUMS):
        for name, total in zip(_COUNTS, sums, strict=True):
            counts[name][int(number) - first] = total
    return Series(
        step_s=step_s,
        t=[(first + slot) * step_s for slot in range(count)],
        published=[number / step_s for number in counts["published"]],
        settled=[number / step_s for number in counts["settled"]],
        retried=[number / step_s for number in counts["retried"]],
        dead=[number / step_s for number in counts["dead"]],
        handler_ms=[
            spent / settled / 1000 if settled else None
            for spent, settled in zip(counts["duration_us"], counts["settled"], strict=True)
        ],
        settled_total=sum(counts["settled"]),
        settled_first_total=sum(counts["settled_first"]),
        retried_total=sum(counts["retried"]),
        dead_total=sum(counts["dead"]),
    )


def topic_sparks(start_ms: int, end_ms: int, scopes: Sequence[str], points: int = 40) -> dict[str, list[float]]:
    """Publish rates of every topic in ``points`` slots, in one query; a topic without traffic is left out."""
    found = _sparks("published", start_ms, end_ms, scopes, points, which=Q(subscription=""))
    return {topic: values for (topic, _), values in found.items()}


def subscription_sparks(
    start_ms: int, end_ms: int, scopes: Sequence[str], points: int = 40
) -> dict[tuple[str, str], list[float]]:
    """Settle rates of every (topic, subscription) in ``points`` slots, in one query."""
    return _sparks("settled", start_ms, end_ms, scopes, points, which=~Q(subscription=""))


def subscription_attempts(start_ms: int, end_ms: int, scopes: Sequence[str]) -> dict[tuple[str, str], Attempts]:
    """The attempts of every (topic, subscription) in the slots of :func:`series`, in one query; none, no entry."""
    step_ms, first, count = _slots(start_ms, end_ms)
    rows = _samples(first * step_ms, (first + count) * step_ms, scopes, _is_long(start_ms, end_ms))
    rows = rows.exclude(subscription="")
    sums = rows.values_list("topic", "subscription").annotate(
        well=Sum("settled"), again=Sum("retried"), end=Sum("dead")
    )
    return {
        (topic, group): Attempts(well + again + end, again + end)
        for topic, group, well, again, end in sums
        if well + again + end
    }


def latest_lag(scopes: Sequence[str], now_ms: int) -> dict[tuple[str, str], LagNow]:
    """The newest sample of every (topic, subscription), as far as it still tells of ``now_ms``."""
    newest = LagSample.objects.aggregate(newest=Max("at_ms"))["newest"]
    if newest is None:
        return {}
    # One tick of the sampler stamps all its rows with the same instant, so nearly all stand there; what could not be
    # read in the last tick has an older one, and only of that is more than one row looked at.
    recent = LagSample.objects.filter(topic_filter(scopes), at_ms__gt=newest - LAG_MEMORY_MS)
    found = {(row[0], row[1]): LagNow.read(row, now_ms) for row in recent.filter(at_ms=newest).values_list(*_LAG)}
    late = recent.values_list("topic", "subscription").annotate(latest=Max("at_ms")).filter(latest__lt=newest)
    if older := {(topic, group): at_ms for topic, group, at_ms in late.order_by()}:
        for row in recent.filter(at_ms__in=set(older.values())).values_list(*_LAG):
            if older.get((row[0], row[1])) == row[2]:
                found[row[0], row[1]] = LagNow.read(row, now_ms)
    return found


def lag_series(start_ms: int, end_ms: int, scopes: Sequence[str], topic: str = "", subscription: str = "") -> LagSeries:
    """Unsettled messages over all chosen subscriptions, as the highest reading of each slot; over all topics and a
    long span, as the first reading of each: adding up every reading of a day would cost seconds.
    """
    step_ms, first, count = _slots(start_ms, end_ms)
    rows = LagSample.objects.filter(
        topic_filter(scopes), at_ms__gte=first * step_ms, at_ms__lt=(first + count) * step_ms, waiting__isnull=False
    )
    if topic:
        rows = rows.filter(topic=topic)
    if subscription:
        rows = rows.filter(subscription=subscription)
    if not topic and _is_long(start_ms, end_ms):
        rows = rows.filter(at_ms__in=_instants(step_ms, first, count))
    unsettled: list[int | None] = [None] * count
    # One tick of the sampler stamps all its rows with the same instant.
    everything = F("waiting") + F("in_flight") + F("retrying") + F("parked")
    for at_ms, total in rows.values_list("at_ms").annotate(total=Sum(everything)):
        slot = at_ms // step_ms - first
        unsettled[slot] = max(unsettled[slot] or 0, total)
    step_s = step_ms // 1000
    return LagSeries(step_s=step_s, t=[(first + slot) * step_s for slot in range(count)], unsettled=unsettled)


def _samples(start_ms: int, end_ms: int, scopes: Sequence[str], long: bool = False) -> QuerySet[Flow]:
    rows: QuerySet[Any] = FlowRollup.objects.all() if long else FlowSample.objects.all()
    return rows.filter(topic_filter(scopes), bucket_ms__gte=start_ms, bucket_ms__lt=end_ms)


def _is_long(start_ms: int, end_ms: int) -> bool:
    """Whether a span is read from the roll-up: then its slots are whole spans of that.

    A short one that reaches back beyond :data:`FINE_MS` is, too: there five minutes of samples are folded into one,
    which a slot of ten seconds would show as thirty times the rate. One span earlier, as clocks differ.
    """
    return end_ms - start_ms > LONG_MS or start_ms - ROLLUP_MS < _clock.now_ms() - FINE_MS


def _instants(step_ms: int, first: int, count: int) -> list[int]:
    """The first sampled instant of each slot: one look into the index for each."""
    slots = ", ".join(f"({slot * step_ms}, {(slot + 1) * step_ms})" for slot in range(first, first + count))
    one = "SELECT MIN(at_ms) FROM ledger_lagsample WHERE at_ms >= slot.column1 AND at_ms < slot.column2"
    with connections[LEDGER].cursor() as cursor:
        cursor.execute(f"SELECT ({one}) FROM (VALUES {slots}) AS slot")  # noqa: S608 - numbers only
        return [at_ms for (at_ms,) in cursor.fetchall() if at_ms is not None]


def _slots(start_ms: int, end_ms: int, points: int = POINTS) -> tuple[int, int, int]:
    """Slot length in ms (whole buckets), number of the first slot since the epoch, and how many slots."""
    span = max(end_ms - start_ms, BUCKET_MS)
    bucket_ms = ROLLUP_MS if _is_long(start_ms, end_ms) else BUCKET_MS
    step_ms = -(-span // (points * bucket_ms)) * bucket_ms
    first = start_ms // step_ms
    return step_ms, first, max(1, -(-end_ms // step_ms) - first)


def _sparks(
    column: str, start_ms: int, end_ms: int, scopes: Sequence[str], points: int, *, which: Q
) -> dict[tuple[str, str], list[float]]:
    step_ms, first, count = _slots(start_ms, end_ms, points)
    rows = (
        _samples(first * step_ms, (first + count) * step_ms, scopes, _is_long(start_ms, end_ms))
        .filter(which)
        .values_list("topic", "subscription", F("bucket_ms") / step_ms)
        .annotate(total=Sum(column))
    )
    found: dict[tuple[str, str], list[float]] = {}
    for topic, subscription, slot, total in rows:
        values = found.setdefault((topic, subscription), [0.0] * count)
        values[int(slot) - first] += total * 1000 / step_ms
    return found


def first_share(settled: int, first: int, retried: int, dead: int) -> float | None:
    """Of what has ended, settled or dead, the share that was settled at the first attempt; ``None``: nothing settled.

    What was retried and has not ended is counted as one at least: all at the first attempt it never was.
    """
    return first / max(settled + dead, first + bool(retried)) if settled else None


def _rates(counts: dict[str, int]) -> Rates:
    settled = counts["settled"]
    return Rates(
        **{name: counts[f"weighed_{name}"] / _WEIGHTS for name in _RATES},
        first_attempt=first_share(settled, counts["settled_first"], counts["retried"], counts["dead"]),
        handler_us=int(counts["duration_us"] / settled) if settled else None,
    )
