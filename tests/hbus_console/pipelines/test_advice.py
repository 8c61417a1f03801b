"""What the archive advises: idle topics, subscriptions that nobody reads, and when the disk is full."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client

from engine.core.clock import ManualClock, to_datetime
from engine.pipeline.lake.state import Kind, LakeFile, LakeState, TopicHeld, TopicRules, date_of
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.pipelines.advice import IDLE_DAYS, IdleTopic, capacity, idle_topics, unread_subscriptions
from hbus_console.pipelines.models import ArchivedTopic, SeriesPoint
from hbus_console.pipelines.views import advice as advice_views
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.hbus_console.pipelines.conftest import TOPIC, MakeUser

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

NOW = 1_795_867_200_000
DAY_S = 86_400
OTHER = "payment.taken"
LONG_AGO = to_datetime(NOW) - timedelta(days=100)


def file(topic: str, days_ago: int, size: int = 10) -> LakeFile:
    at_ms = NOW - days_ago * DAY_S * 1000
    name = f"{topic}-{days_ago}"
    return LakeFile(name, Kind.MESSAGES, topic, "-", date_of(at_ms), 1, size, 1, "", at_ms, at_ms, "", "")


def lake_of(*files: LakeFile) -> LakeState:
    return LakeState(files={each.path: each for each in files})


def day(topic: str, days_ago: int, subscription: str = "", **counts: int) -> None:
    at = NOW // 1000 // DAY_S * DAY_S - days_ago * DAY_S
    SeriesPoint.objects.create(topic=topic, subscription=subscription, resolution="day", at=at, **counts)


@pytest.fixture
def archived(governor: Actor) -> Actor:
    """Both topics, for long."""
    for topic in Topic.objects.all():
        ArchivedTopic.objects.create(topic=topic, started_by="gov")
    ArchivedTopic.objects.update(started_at=LONG_AGO)
    return governor


def test_a_topic_is_idle_that_had_nothing_for_some_days(archived: Actor) -> None:
    idle = file(TOPIC, IDLE_DAYS + 1)
    found = idle_topics(archived, lake_of(idle, file(OTHER, IDLE_DAYS - 1)), NOW)
    assert found == [IdleTopic(TOPIC, idle.last_ms, round(LONG_AGO.timestamp() * 1000))]


def test_of_what_the_lake_let_go_of_the_series_tell(archived: Actor) -> None:
    day(TOPIC, 40, stored=3)
    day(OTHER, 3, stored=1)
    (found,) = idle_topics(archived, LakeState(), NOW)
    assert (found.name, found.last_ms) == (TOPIC, (NOW // 1000 // DAY_S - 40) * DAY_S * 1000)


@pytest.mark.parametrize(("days_ago", "idle"), [(IDLE_DAYS, []), (IDLE_DAYS + 1, [TOPIC])])
def test_of_a_day_that_the_series_tell_the_end_counts(archived: Actor, days_ago: int, idle: list[str]) -> None:
    """At noon: the last message may have come in the evening of that day."""
    day(TOPIC, days_ago, stored=3)
    day(OTHER, 3, stored=1)
    assert [each.name for each in idle_topics(archived, LakeState(), NOW + DAY_S * 500)] == idle


def test_a_topic_that_is_archived_only_just_now_is_not_called_idle(archived: Actor) -> None:
    ArchivedTopic.objects.update(started_at=to_datetime(NOW) - timedelta(days=IDLE_DAYS - 1))
    assert idle_topics(archived, LakeState(), NOW) == []


@pytest.fixture
def read_by(archived: Actor) -> Actor:
    """Messages came until yesterday; of three one settles, one did long ago, one never did."""
    topic = Topic.objects.get(name=TOPIC)
    for name in ("busy", "former", "never"):
        Subscription.objects.create(topic=topic, group=name)
    Subscription.objects.update(created_at=LONG_AGO)
    day(TOPIC, 1, stored=30)
    day(TOPIC, IDLE_DAYS - 1, stored=4)
    day(TOPIC, IDLE_DAYS, stored=1_000)
    day(TOPIC, 2, "busy", settled=1)
    day(TOPIC, 30, "former", settled=9)
    return archived


def test_nobody_reads_a_subscription_that_settles_nothing_while_messages_come(read_by: Actor) -> None:
    found = unread_subscriptions(read_by, NOW)
    assert [(each.group, each.came) for each in found] == [("never", 34), ("former", 34)]
    assert [each.last_ms for each in found] == [0, (NOW // 1000 // DAY_S - 30) * DAY_S * 1000]


def test_where_nothing_came_nobody_is_blamed(read_by: Actor) -> None:
    SeriesPoint.objects.filter(subscription="").delete()
    assert unread_subscriptions(read_by, NOW) == []


def test_a_young_subscription_is_not_blamed(read_by: Actor) -> None:
    Subscription.objects.update(created_at=to_datetime(NOW) - timedelta(days=2))
    assert unread_subscriptions(read_by, NOW) == []


def test_advice_is_given_of_what_one_may_see(read_by: Actor, make_user: MakeUser) -> None:
    other = actor_of(make_user("viewer", "payment.*", name="pay"))
    state = lake_of(file(TOPIC, 50), file(OTHER, 50))
    assert [each.name for each in idle_topics(other, state, NOW)] == [OTHER]
    assert unread_subscriptions(other, NOW) == []


def test_growth_is_that_of_whole_days_and_a_day_without_any_counts(governor: Actor, tmp_path: Path) -> None:
    who = governor
    state = lake_of(*(file(TOPIC, back, 100) for back in range(9) if back != 3))
    found = capacity(who, state, tmp_path / "not" / "made" / "yet", NOW)
    assert (found.days, found.bytes, found.limited) == (8, 800, 0)
    assert found.forecast is not None
    assert found.forecast.per_day == pytest.approx(87.5)
    assert found.free > 0
    assert capacity(who, lake_of(file(TOPIC, 0)), tmp_path, NOW).forecast is None
    assert capacity(who, LakeState(), tmp_path, NOW).days == 0
    limited = LakeState(topics={TOPIC: TopicHeld({}, (), 0, rules=TopicRules(keep_days=30))})
    assert capacity(who, limited, tmp_path, NOW).limited == 1


def test_the_page_tells_it_and_of_the_disk_only_who_sees_all(
    read_by: Actor, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advice_views, "_clock", ManualClock(NOW))
    shown = {}
    for name, scope in (("all", "*"), ("some", "booking.*")):
        client = Client()
        client.force_login(make_user("viewer", scope, name=name))
        shown[name] = client.get("/archive/advice/").content.decode()
        assert "34 messages came" in shown[name]
        assert "it never settled any" in shown[name]
    assert "Too little is known" in shown["all"]
    assert "Capacity" not in shown["some"]
