"""What rules compare with their thresholds, read from what the keeper has stored: a few indexed queries a round,
however many targets there are, and never a question to the store itself.

A value of ``None`` means that nobody knows: the alert stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from django.db.models import BooleanField, Count, Max, Sum
from django.db.models.expressions import RawSQL

from engine.core.clock import to_datetime
from hbus_console.alerts.models import Rule
from hbus_console.alerts.targets import Key, Target
from hbus_console.deadletters.limit import percent_full
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.models import Notice
from hbus_console.messages.models import FlowSample, LagSample

#: A reading of the lag older than this tells nothing any more: the sampler stands still.
STALE_MS = 60_000
#: Facts may be booked so much later than they happened.
LATE_MS = 60_000
#: How far back an opened breaker is looked for.
BREAKER_MS = 7 * 24 * 3_600_000
BUCKET_MS = FlowSample.BUCKET_S * 1000
# The comparison stands in the SQL itself: SQLite uses the partial index only when it can read it there.
_FAILED = RawSQL("failed > 0", (), output_field=BooleanField())


class Pulse:
    """When each topic was last published to. Asked for once per topic, then kept up by what is new."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._through_ms = 0

    def refresh(self, topics: Iterable[str], now_ms: int) -> Mapping[str, int]:
        """Epoch milliseconds by topic, 0 for one that was never published to as far as the ledger remembers."""
        if self._last:
            fresh = (
                FlowSample.objects.filter(bucket_ms__gte=self._through_ms - LATE_MS, subscription="", published__gt=0)
                .values_list("topic")
                .annotate(latest=Max("bucket_ms"))
                .order_by()
            )
            for topic, bucket_ms in fresh:
                self._note(topic, bucket_ms, now_ms)
        for topic in topics:
            if topic not in self._last:
                rows = FlowSample.objects.filter(topic=topic, subscription="", published__gt=0)
                found = rows.order_by("-bucket_ms").values_list("bucket_ms", flat=True).first()
                self._last[topic] = 0
                if found is not None:
                    self._note(topic, found, now_ms)
        self._through_ms = now_ms
        return self._last

    def _note(self, topic: str, bucket_ms: int, now_ms: int) -> None:
        self._last[topic] = max(self._last.get(topic, 0), min(bucket_ms + BUCKET_MS, now_ms))


class Measures:
    """The readings of one round; each query runs at most once, and only if a rule asks for it."""

    def __init__(self, now_ms: int, watching_ms: int, pulse: Pulse, silent_topics: Iterable[str] = ()) -> None:
        self._now_ms = now_ms
        self._watching_ms = watching_ms
        self._pulse = pulse
        self._silent_topics = list(silent_topics)
        self._windows: dict[tuple[str, int], Mapping[Key, int]] = {}

    def value(self, rule: Rule, target: Target, *, firing: bool) -> float | None:
        """What ``rule`` compares for ``target``; ``firing`` when its alert fires already."""
        return _MEASURES[rule.kind](self, rule, target, firing)

    def lag(self, rule: Rule, target: Target, firing: bool) -> float | None:
        row = self._lag.get(target.key)
        return None if row is None or row[0] is None else float(row[0])

    def oldest(self, rule: Rule, target: Target, firing: bool) -> float | None:
        row = self._lag.get(target.key)
        if row is None:
            return None
        return max(0, self._now_ms - row[1]) / 1000 if row[1] else 0.0

    def dead_letters(self, rule: Rule, target: Target, firing: bool) -> float:
        return self._dead.get(target.key, 0)

    def dead_letter_limit(self, rule: Rule, target: Target, firing: bool) -> float:
        return percent_full(self._dead, *target.key)

    def parked(self, rule: Rule, target: Target, firing: bool) -> float | None:
        row = self._lag.get(target.key)
        return None if row is None else float(row[2])

    def dead_letter_rate(self, rule: Rule, target: Target, firing: bool) -> float:
        return self._window("dead", rule.window_s, self._died).get(target.key, 0)

    def publish_failures(self, rule: Rule, target: Target, firing: bool) -> float:
        return self._window("failed", rule.window_s, self._failed).get(target.key, 0)

    def breaker_open(self, rule: Rule, target: Target, firing: bool) -> float:
        """Seconds since it opened; below every threshold while it is closed."""
        opened = self._breakers.get(target.key)
        return -1.0 if opened is None else max(0, self._now_ms - opened) / 1000

    def silent_topic(self, rule: Rule, target: Target, firing: bool) -> float:
        """Silence before the watch began is not held against a topic, unless it was held against it already."""
        since = max(self._published.get(target.topic, 0), target.created_ms, 0 if firing else self._watching_ms)
        return max(0, self._now_ms - since) / 60_000

    @cached_property
    def _lag(self) -> Mapping[Key, tuple[int | None, int | None, int]]:
        """Unsettled messages, when the oldest was published, and how many are parked."""
        newest = LagSample.objects.aggregate(newest=Max("at_ms"))["newest"]
        if newest is None or abs(self._now_ms - newest) > STALE_MS:
            return {}
        # One tick of the sampler stamps all its rows with the same instant.
        rows = LagSample.objects.filter(at_ms=newest).values_list(
            "topic", "subscription", "waiting", "in_flight", "retrying", "parked", "oldest_ms"
        )
        return {
            (topic, group): (None if waiting is None else waiting + in_flight + retrying + parked, oldest, parked)
            for topic, group, waiting, in_flight, retrying, parked, oldest in rows
        }

    @cached_property
    def _dead(self) -> Mapping[Key, int]:
        rows = DeadLetter.objects.filter(state=DeadLetter.State.DEAD).values_list("topic", "subscription")
        return {(topic, group): count for topic, group, count in rows.annotate(count=Count("id")).order_by()}

    @cached_property
    def _published(self) -> Mapping[str, int]:
        return self._pulse.refresh(self._silent_topics, self._now_ms)

    @cached_property
    def _breakers(self) -> Mapping[Key, int]:
        """The opened ones, and since when."""
        rows = (
            Notice.objects.filter(
                at_ms__gte=self._now_ms - BREAKER_MS, kind__in=("breaker_opened", "breaker_closed"), subscription__gt=""
            )
            .order_by("at_ms", "pk")
            .values_list("kind", "topic", "subscription", "at_ms")
        )
        opened: dict[Key, int] = {}
        for kind, topic, group, at_ms in rows:
            if kind == "breaker_closed":
                opened.pop((topic, group), None)
            else:
                opened.setdefault((topic, group), at_ms)
        return opened

    def _window(self, what: str, window_s: int, read: Callable[[int], Mapping[Key, int]]) -> Mapping[Key, int]:
        key = (what, window_s)
        if key not in self._windows:
            self._windows[key] = read(self._now_ms - window_s * 1000)
        return self._windows[key]

    def _died(self, since_ms: int) -> Mapping[Key, int]:
        rows = DeadLetter.objects.filter(died_at__gte=to_datetime(since_ms)).values_list("topic", "subscription")
        return {(topic, group): count for topic, group, count in rows.annotate(count=Count("id")).order_by()}

    def _failed(self, since_ms: int) -> Mapping[Key, int]:
        rows = FlowSample.objects.filter(_FAILED, bucket_ms__gt=since_ms - BUCKET_MS, subscription="")
        return {(topic, ""): total for topic, total in rows.values_list("topic").annotate(Sum("failed")).order_by()}


_MEASURES: dict[str, Callable[[Measures, Rule, Target, bool], float | None]] = {
    "lag": Measures.lag,
    "oldest": Measures.oldest,
    "dead_letters": Measures.dead_letters,
    "dead_letter_rate": Measures.dead_letter_rate,
    "dead_letter_limit": Measures.dead_letter_limit,
    "parked": Measures.parked,
    "publish_failures": Measures.publish_failures,
    "breaker_open": Measures.breaker_open,
    "silent_topic": Measures.silent_topic,
}
#: Of these a paused subscription is not judged: somebody holds it on purpose, and the overview says so.
NOT_WHILE_PAUSED = frozenset({"lag", "oldest"})
