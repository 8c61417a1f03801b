from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connections
from django.db.models import F

from engine.bus.facts import Fact, batches
from engine.core.clock import ManualClock
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.freshness import Freshness
from hbus_console.messages.models import FlowRollup, FlowSample, LagSample
from hbus_console.messages.retention import LedgerRetention
from hbus_console.topics.models import Topic
from hbus_console.traffic import flow, live
from tests.costs import database_work
from tests.hbus_console.kept import kept

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOW = 1_790_000_005_000
BUCKET = flow.BUCKET_MS
LAST = NOW - NOW % BUCKET - BUCKET
BOOKED = Freshness.at(NOW, NOW)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    made = ManualClock(NOW)
    monkeypatch.setattr(flow, "_clock", made)
    return made


def sample(topic: str, subscription: str = "", bucket_ms: int = LAST, **counts: int) -> None:
    FlowSample.objects.create(topic=topic, subscription=subscription, bucket_ms=bucket_ms, **counts)
    long_ms = bucket_ms - bucket_ms % flow.ROLLUP_MS
    FlowRollup.objects.get_or_create(topic=topic, subscription=subscription, bucket_ms=long_ms)
    cell = FlowRollup.objects.filter(topic=topic, subscription=subscription, bucket_ms=long_ms)
    cell.update(**{name: F(name) + count for name, count in counts.items()})


def lag(topic: str, subscription: str, at_ms: int, waiting: int | None, oldest_ms: int | None = None) -> None:
    LagSample.objects.create(
        topic=topic,
        subscription=subscription,
        at_ms=at_ms,
        waiting=waiting,
        in_flight=1,
        retrying=2,
        oldest_ms=oldest_ms,
    )


def test_rates_are_a_mean_of_the_last_complete_buckets_in_which_the_newest_weighs_most() -> None:
    for number, published in enumerate((120, 60, 240)):
        sample("booking.created", bucket_ms=LAST - number * BUCKET, published=published)
    for number in range(3):
        counts = {"settled": 20, "settled_first": 19, "retried": 1, "duration_us": 40_000}
        sample("booking.created", "billing", bucket_ms=LAST - number * BUCKET, **counts)
    # The running bucket is incomplete and one from long ago is over: neither counts.
    sample("booking.created", bucket_ms=LAST + BUCKET, published=9_999)
    sample("booking.created", bucket_ms=LAST - 10 * BUCKET, published=9_999)

    now = flow.rates(NOW, ["*"], BOOKED)

    assert now.total.published == (3 * 120 + 2 * 60 + 240) / 6 / 10
    assert now.topics["booking.created"].settled == 2.0
    billing = now.subscriptions["booking.created", "billing"]
    assert billing.retried == pytest.approx(0.1)
    assert billing.first_attempt == pytest.approx(0.95)
    assert billing.handler_us == 2_000


def test_without_settlements_there_is_no_share_and_no_duration() -> None:
    assert flow.rates(NOW, ["*"], BOOKED).total.first_attempt is None
    assert flow.rates(NOW, ["*"], BOOKED).total.handler_us is None


@pytest.mark.parametrize(
    ("counts", "share"),
    [
        ({"settled": 999, "first": 999, "retried": 0, "dead": 0}, 1.0),
        # One died: it was not settled at all, and four attempts failed.
        ({"settled": 999, "first": 999, "retried": 3, "dead": 1}, 0.999),
        # One is still being retried.
        ({"settled": 999, "first": 999, "retried": 2, "dead": 0}, 0.999),
        ({"settled": 1_000, "first": 999, "retried": 2, "dead": 0}, 0.999),
        ({"settled": 0, "first": 0, "retried": 2, "dead": 1}, None),
    ],
)
def test_what_died_or_is_retried_was_not_done_at_the_first_attempt(counts: dict[str, int], share: float | None) -> None:
    assert flow.first_share(**counts) == share


def test_scopes_hide_other_topics() -> None:
    for topic in ("booking", "booking.created", "bookings.other", "stay.completed"):
        Topic.objects.create(name=topic)
        sample(topic, published=30)
        lag(topic, "g", NOW, 1)

    assert set(flow.rates(NOW, ["booking.*"], BOOKED).topics) == {"booking", "booking.created"}
    assert set(flow.rates(NOW, ["stay.completed"], BOOKED).topics) == {"stay.completed"}
    assert flow.rates(NOW, [], BOOKED).topics == {}
    assert set(flow.latest_lag(["booking.*"], NOW)) == {("booking", "g"), ("booking.created", "g")}
    assert sum(flow.series(NOW - 60_000, NOW, ["stay.*"]).published) == 3.0
    assert flow.latest_lag(["booking.deleted"], NOW) == {}


def test_a_series_fills_quiet_slots_and_names_its_peak() -> None:
    sample("a", published=100, bucket_ms=LAST)
    sample("a", published=50, bucket_ms=LAST - 3 * BUCKET)
    sample("a", "g", settled=20, settled_first=10, duration_us=60_000, bucket_ms=LAST)

    found = flow.series(LAST - 5 * BUCKET, LAST + BUCKET, ["*"])

    assert found.step_s == 10
    assert found.published == [0, 0, 5.0, 0, 0, 10.0]
    assert found.settled[-1] == 2.0
    assert found.handler_ms == [None] * 5 + [3.0]
    assert found.t[-1] == LAST // 1000
    assert found.peak("published") == (10.0, LAST)
    assert found.first_attempt == 0.5


def test_a_series_of_a_subscription_keeps_the_topics_publish_rate() -> None:
    sample("a", published=100)
    sample("a", "mine", settled=20)
    sample("a", "other", settled=70)
    sample("b", published=900)

    found = flow.series(LAST, LAST + BUCKET, ["*"], topic="a", subscription="mine")

    assert found.published == [10.0]
    assert found.settled == [2.0]


def test_a_long_span_is_folded_into_few_points() -> None:
    day = 24 * 3_600_000
    sample("a", published=100)
    found = flow.series(NOW - 14 * day, NOW, ["*"])
    assert len(found.t) <= flow.POINTS + 1
    assert sum(found.published) * found.step_s == pytest.approx(100)


def test_a_long_span_reads_the_roll_up_alone() -> None:
    sample("a", published=300)
    sample("a", "g", settled=60, settled_first=60, duration_us=600_000)
    sample("a", published=300, bucket_ms=LAST - 8 * 3_600_000)
    FlowSample.objects.all().delete()

    found = flow.series(NOW - 12 * 3_600_000, NOW, ["*"], topic="a")

    assert found.step_s % 300 == 0
    assert sum(found.published) * found.step_s == pytest.approx(600)
    assert found.first_attempt == 1.0
    assert sum(flow.topic_sparks(NOW - 12 * 3_600_000, NOW, ["*"])["a"]) > 0
    assert sum(flow.series(NOW - 3_600_000, NOW, ["*"]).published) == 0, "a short one reads the samples"


def test_a_short_span_keeps_its_rates_when_its_samples_are_folded(clock: ManualClock) -> None:
    start = NOW - NOW % flow.ROLLUP_MS
    hour = 3_600_000 // BUCKET
    for slot in range(hour):
        sample("a", published=1_000, bucket_ms=start + slot * BUCKET)
        sample("a", "g", settled=900, settled_first=900, retried=100, bucket_ms=start + slot * BUCKET)
    clock.advance(3 * 86_400)
    LedgerRetention(5, clock=clock).tick()
    assert FlowSample.objects.filter(subscription="").count() == 12

    for minutes in (15, 60):
        found = flow.series(start, start + minutes * 60_000, ["*"], "a", "g")
        assert set(found.published) == {100.0}
        assert found.peak("published")[0] == 100.0
        assert set(found.failed) == {10.0}
        assert set(flow.topic_sparks(start, start + minutes * 60_000, ["*"], 30)["a"]) == {100.0}
        attempts = flow.subscription_attempts(start + 1, start + minutes * 60_000, ["*"])["a", "g"]
        assert (attempts.total, attempts.failed) == (minutes * 6_000, minutes * 600)


def test_the_lag_over_a_long_span_is_one_reading_a_slot() -> None:
    slot = (NOW - 3_600_000) // flow.ROLLUP_MS * flow.ROLLUP_MS
    for tick in range(10):
        lag("a", "g", slot + 1_000 + tick * 5_000, 10 + tick)
        lag("b", "h", slot + 1_000 + tick * 5_000, 100)

    found = flow.lag_series(NOW - 12 * 3_600_000, NOW, ["*"])

    assert [value for value in found.unsettled if value is not None] == [10 + 100 + 2 * 3]
    of_one = flow.lag_series(NOW - 12 * 3_600_000, NOW, ["*"], "a", "g")
    assert [value for value in of_one.unsettled if value is not None] == [19 + 3]


def test_sparks_come_by_topic_and_by_subscription() -> None:
    sample("a", published=100)
    sample("a", "g", settled=50)
    sample("b", published=10, bucket_ms=LAST - BUCKET)

    topics = flow.topic_sparks(LAST - BUCKET, LAST + BUCKET, ["*"], points=2)

    assert topics == {"a": [0.0, 10.0], "b": [1.0, 0.0]}
    assert flow.subscription_sparks(LAST - BUCKET, LAST + BUCKET, ["*"], points=2) == {("a", "g"): [0.0, 5.0]}


def test_of_what_could_not_be_read_in_the_last_tick_the_reading_before_counts() -> None:
    Topic.objects.create(name="b")
    lag("a", "g", NOW, 4)
    lag("a", "away", NOW - 10_000, 8)
    lag("a", "away", NOW - 5_000, 7)
    lag("b", "away", NOW - 10_000, 6)

    found = flow.latest_lag(["*"], NOW)

    assert {key: line.waiting for key, line in found.items()} == {("a", "g"): 4, ("a", "away"): 7, ("b", "away"): 6}
    assert set(flow.latest_lag(["b"], NOW)) == {("b", "away")}


def test_the_latest_lag_is_the_newest_reading_of_each_and_forgets_what_is_gone() -> None:
    lag("a", "g", NOW - 5_000, 9)
    lag("a", "g", NOW, 4, oldest_ms=NOW - 700)
    lag("a", "blind", NOW, None)
    lag("a", "deleted", NOW - flow.LAG_MEMORY_MS - 1, 4)

    found = flow.latest_lag(["*"], NOW)

    assert set(found) == {("a", "g"), ("a", "blind")}
    assert found["a", "g"].unsettled == 7
    assert found["a", "g"].oldest_ms == NOW - 700
    assert found["a", "blind"].unsettled is None


def test_unsettled_over_time_adds_up_subscriptions_and_keeps_the_worst_of_a_slot() -> None:
    lag("a", "g", LAST, 10)
    lag("a", "h", LAST, 10)
    lag("a", "g", LAST + 5_000, 1)
    found = flow.lag_series(LAST - BUCKET, LAST + BUCKET, ["*"])
    assert found.unsettled == [None, 26]


def a_day_before() -> None:
    """Copy the samples that stand into each bucket of the day before: in the database, for it is tens of thousands."""
    columns = [column.column for column in FlowSample._meta.concrete_fields if not column.primary_key]
    back = ", ".join(f"bucket_ms - back.n * {BUCKET}" if name == "bucket_ms" else name for name in columns)
    with connections["ledger"].cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE back(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM back WHERE n < %s) "
            f"INSERT INTO {FlowSample._meta.db_table} ({', '.join(columns)}) "
            f"SELECT {back} FROM {FlowSample._meta.db_table} CROSS JOIN back",
            [86_400_000 // BUCKET - 1],
        )


def test_a_day_of_twenty_subscriptions_is_charted_fast() -> None:
    for n in range(10):
        FlowSample.objects.create(topic=f"t{n % 5}", subscription=f"g{n}" if n else "", bucket_ms=LAST, settled=1)
    a_day_before()
    assert FlowSample.objects.count() == 86_400
    with database_work("ledger") as now:
        flow.rates(NOW, ["*"], BOOKED)
    with database_work("ledger") as chart:
        flow.series(NOW - 3 * 3_600_000, NOW, ["*"])
    # An eighth of the table, with some 40 instructions a row; for what flows now, next to nothing.
    now.at_most(5_000)
    chart.at_most(600_000)


def test_what_is_booked_stands_in_the_samples_and_in_the_roll_up_alike() -> None:
    begin = NOW // flow.ROLLUP_MS * flow.ROLLUP_MS
    for batch in (range(20), range(20, 40)):
        rows = Booking(each=False)
        for number in batch:
            rows.add(
                batches(
                    [
                        Fact("published", begin + number * 10_000, "a"),
                        Fact("settled", begin + number * 10_000, "a", "g", attempt=1, duration_us=5),
                    ]
                )
            )
        rows.write()
    assert FlowSample.objects.filter(subscription="").count() == 40
    found = FlowRollup.objects.order_by("subscription", "bucket_ms")
    assert [(it.subscription, it.bucket_ms - begin, it.published, it.settled, it.duration_us) for it in found] == [
        ("", 0, 30, 0, 0),
        ("", 300_000, 10, 0, 0),
        ("g", 0, 0, 30, 150),
        ("g", 300_000, 0, 10, 50),
    ]


def test_the_migration_rolls_up_what_was_booked_before() -> None:
    migration = import_module("hbus_console.messages.migrations.0006_flow_rollup")
    sample("a", published=5)
    sample("a", published=7, bucket_ms=LAST - BUCKET)
    FlowRollup.objects.all().delete()
    with connections["ledger"].cursor() as cursor:
        migration.roll_up(apps, SimpleNamespace(connection=connections["ledger"], execute=cursor.execute))
    assert sum(FlowRollup.objects.values_list("published", flat=True)) == 12


def test_the_live_rate_of_a_topic_that_nobody_reads_falls_back_to_nothing() -> None:
    Topic.objects.create(name="stay.unread")
    Topic.objects.create(name="pay.unread")
    sample("stay.unread", published=75)
    kept(NOW)
    moving = live.cells(NOW, ("stay.*",)).rows
    kept(NOW + 20 * BUCKET)
    still = live.cells(NOW + 20 * BUCKET, ("stay.*",)).rows
    assert moving["topic/stay.unread"]["rate"] != "0"
    assert still["topic/stay.unread"] == {"rate": "0", "unsettled": "0"}
    assert "topic/pay.unread" not in still


def test_the_attempts_of_a_subscription_are_told_with_those_that_failed() -> None:
    Topic.objects.create(name="b")
    sample("a", "g", LAST, settled=90, retried=8, dead=2)
    sample("a", "", LAST, published=5)
    sample("a", "early", LAST - 10 * BUCKET, settled=1)
    found = flow.subscription_attempts(LAST, LAST + BUCKET, ["*"])
    assert found == {("a", "g"): flow.Attempts(100, 10)}
    assert found["a", "g"].failed_share == 0.1
    assert flow.Attempts().failed_share is None
    assert flow.subscription_attempts(LAST, LAST + BUCKET, ["b"]) == {}
