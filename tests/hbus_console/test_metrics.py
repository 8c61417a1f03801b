from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from django.test import Client
from prometheus_client import REGISTRY, CollectorRegistry, Gauge, Histogram

from engine.bus.facts import Fact, batches
from engine.core.clock import ManualClock, SystemClock
from engine.core.facts import FactBatch
from hbus_console import metrics
from hbus_console.cluster import scrape
from hbus_console.consumers.metrics import show_breakers
from hbus_console.evidence.freshness import STALE_MS
from hbus_console.messages.models import LagSample
from hbus_console.traffic.metrics import show_lag

AT = 1_790_000_000_000


class Sink:
    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.written = 0

    def write(self, facts: Sequence[FactBatch]) -> None:
        if self.failures:
            raise self.failures.pop()
        self.written += sum(batch.count for batch in facts)


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def settled(topic: str, duration_us: int = 3_000) -> Fact:
    return Fact("settled", AT, topic=topic, subscription="g", message_id="m", attempt=1, duration_us=duration_us)


def test_facts_are_counted_by_topic_and_subscription(prefix: str) -> None:
    sink = Sink()
    metrics.CountingSink(sink).write(batches([
        Fact("published", AT, topic=prefix), Fact("published", AT, topic=prefix), settled(prefix),
        Fact("dead", AT, topic=prefix, subscription="g"), Fact("retried", AT, topic=prefix, subscription="g"),
    ]))  # fmt: skip
    assert value("hbus_published_total", topic=prefix) == 2
    assert value("hbus_settled_total", topic=prefix, subscription="g") == 1
    assert value("hbus_dead_total", topic=prefix, subscription="g") == 1
    assert value("hbus_retried_total", topic=prefix, subscription="g") == 1
    assert value("hbus_handler_seconds_sum", topic=prefix, subscription="g") == pytest.approx(0.003)
    assert sink.written == 5


def test_failed_publishes_are_counted_in_messages(prefix: str) -> None:
    metrics.count(
        batches([Fact("publish_failed", AT, topic=prefix, size=3), Fact("publish_failed", AT, topic=prefix, size=1)])
    )
    assert value("hbus_publish_failed_total", topic=prefix) == 4


def test_a_batch_offered_again_is_counted_once_and_counting_outlives_the_store(prefix: str) -> None:
    sink = Sink(ConnectionError("away"), ConnectionError("away"))
    counting = metrics.CountingSink(sink)
    batch = batches([settled(prefix)])
    for _ in range(2):
        with pytest.raises(ConnectionError):
            counting.write(batch)
        assert value("hbus_settled_total", topic=prefix, subscription="g") == 1
    counting.write(batch)
    counting.write(batches([settled(prefix)]))
    assert value("hbus_settled_total", topic=prefix, subscription="g") == 2


def test_the_histogram_says_what_one_call_a_value_would_say(prefix: str) -> None:
    # Given values below, on, between and above the buckets' bounds
    durations_us = [0, 999, 1_000, 1_001, 2_500, 9_999, 60_000_000, 999_000_000, 300_000_000]
    one_by_one = Histogram(
        "one_by_one", "The same, by the client.", ("topic",), buckets=metrics._BUCKETS_S, registry=None
    )
    for duration_us in durations_us:
        one_by_one.labels("t").observe(duration_us / 1_000_000)

    metrics.count(batches([Fact("settled", 1, f"{prefix}.h", "g", duration_us=each) for each in durations_us]))

    def samples(histogram: Histogram) -> list[tuple[str, float]]:
        return [
            (sample.name.rpartition("_")[2] + sample.labels.get("le", ""), sample.value)
            for sample in histogram.collect()[0].samples
            if sample.labels["topic"] in ("t", f"{prefix}.h") and not sample.name.endswith("created")
        ]

    assert samples(metrics._counters()["settled"].histogram) == samples(one_by_one)


def test_dropped_evidence_is_counted_by_its_number() -> None:
    before = value("hbus_facts_dropped_total")
    metrics.count(batches([Fact("facts_dropped", AT, size=40)]))
    assert value("hbus_facts_dropped_total") == before + 40


def test_labels_stay_bounded(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.setattr(metrics, "MOST_LABELS", 0)
    before = value("hbus_published_total", topic="other")
    metrics.count(batches([Fact("published", AT, topic=f"{prefix}{n}") for n in range(50)]))
    assert value("hbus_published_total", topic="other") == before + 50


def test_gauges_follow_the_sampler_and_forget_what_is_gone(prefix: str) -> None:
    sample = LagSample(
        at_ms=AT, topic=prefix, subscription="g", waiting=5, in_flight=2, retrying=1, oldest_ms=AT - 1_500
    )
    show_lag([sample], AT)
    assert value("hbus_unsettled_messages", topic=prefix, subscription="g") == 8
    assert value("hbus_oldest_unsettled_seconds", topic=prefix, subscription="g") == 1.5
    show_lag([], AT)
    assert math.isnan(value("hbus_unsettled_messages", topic=prefix, subscription="g"))


def test_the_age_of_what_the_store_cannot_tell_is_not_none(prefix: str) -> None:
    def oldest(waiting: int | None, oldest_ms: int | None) -> float:
        sample = LagSample(at_ms=AT, topic=prefix, subscription="g", waiting=waiting, in_flight=0, retrying=0)
        sample.oldest_ms = oldest_ms
        show_lag([sample], AT)
        return value("hbus_oldest_unsettled_seconds", topic=prefix, subscription="g")

    assert oldest(0, None) == 0
    assert math.isnan(oldest(None, None))
    assert oldest(None, AT - 9_000) == 9


def test_a_breaker_is_in_one_state_and_forgotten_when_gone(prefix: str) -> None:
    def states() -> list[float]:
        return [
            value("hbus_breaker_state", topic=prefix, subscription="g", state=state)
            for state in ("closed", "open", "probing")
        ]

    show_breakers({(prefix, "g"): "closed"})
    assert states() == [1, 0, 0]
    show_breakers({(prefix, "g"): "probing"})
    assert states() == [0, 0, 1]
    show_breakers({})
    assert all(math.isnan(each) for each in states())


def test_gauges_beyond_the_limit_stand_together_and_do_not_lie(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.setattr(metrics, "MOST_LABELS", 1)

    def sample(group: str, waiting: int | None, age_ms: int) -> LagSample:
        return LagSample(
            at_ms=AT, topic=prefix, subscription=group, waiting=waiting, in_flight=0, retrying=0, oldest_ms=AT - age_ms
        )

    def other() -> tuple[float, float]:
        return (
            value("hbus_unsettled_messages", topic="other", subscription="other"),
            value("hbus_oldest_unsettled_seconds", topic="other", subscription="other"),
        )

    first = sample("z", 5, 1_000)
    show_lag([first], AT)
    # When others come, which stand before the one that was shown
    show_lag([sample("a", 2, 9_000), sample("b", 3, 4_000), sample("c", None, 0), first], AT)
    assert other() == (5, 9)
    assert value("hbus_unsettled_messages", topic=prefix, subscription="z") == 5
    # When room is there again
    show_lag([sample("b", 3, 4_000)], AT)
    assert all(math.isnan(each) for each in other())
    assert value("hbus_unsettled_messages", topic=prefix, subscription="b") == 3


def test_breakers_beyond_the_limit_are_counted_by_state(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.setattr(metrics, "MOST_LABELS", 0)
    show_breakers({(prefix, "a"): "open", (prefix, "b"): "closed", (prefix, "c"): "open"})
    assert [
        value("hbus_breaker_state", topic="other", subscription="other", state=state)
        for state in ("closed", "open", "probing")
    ] == [1, 2, 0]


def test_a_gauge_that_nobody_sets_any_more_has_no_value() -> None:
    registry, clock = CollectorRegistry(), ManualClock(AT)
    gauge = Gauge("toys_seen", "Toys.", ("topic", "subscription"), registry=registry)
    other = Gauge("others_seen", "Set by whoever is asked.", registry=registry)
    registry.register(metrics._SET)
    metrics.Gauges({gauge: sum}, clock).show([(("t", "g"), (5.0,))])
    other.set(7)

    def values(age_ms: int) -> list[float]:
        found = {each.name: each for each in metrics.current(registry.collect(), AT + age_ms)}
        return [found[name].samples[0].value for name in ("toys_seen", "others_seen")]

    assert values(STALE_MS - 1) == [5, 7]
    old, still = values(STALE_MS)
    assert math.isnan(old)
    assert still == 7


def test_the_scrape_leaves_out_what_a_keeper_that_has_stopped_left_behind(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(SystemClock().now_ms())
    monkeypatch.setattr(scrape, "_clock", clock)
    show_lag([LagSample(at_ms=AT, topic=prefix, subscription="g", waiting=800, in_flight=0, retrying=0)], AT)

    def shown() -> list[str]:
        text = Client().get("/metrics").content.decode()
        return [line.split()[-1] for line in text.splitlines() if line.startswith("hbus_unsettled") and prefix in line]

    assert shown() == ["800.0"]
    clock.advance(60)
    assert shown() == ["NaN"]
