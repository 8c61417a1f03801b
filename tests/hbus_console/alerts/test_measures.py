"""What each kind of rule measures, from what the keeper has stored; and that it stays cheap."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from engine.bus.breaker_board import Pauses, RedisBreakers
from engine.bus.facts import Fact, batches
from engine.core.clock import ManualClock, to_datetime
from hbus_console.alerts import services
from hbus_console.alerts.evaluation import AlertEvaluator
from hbus_console.alerts.kinds import kinds
from hbus_console.alerts.models import Alert, Rule
from hbus_console.alerts.wording import sentence
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.booking import Booking
from hbus_console.messages.models import LagSample
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic
from hbus_console.wiring import store
from tests.costs import calls, database_work
from tests.hbus_console.alerts.conftest import Watch, rule
from tests.hbus_console.kept import kept

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


READER = ("booking.created", "billing")
PAUSES = Pauses(first_ms=1_000, longest_ms=5_000)


def book(*facts: Fact) -> None:
    rows = Booking(each=False)
    rows.add(batches(facts))
    rows.write()


def die(clock: ManualClock, count: int, *, ago_s: float = 0) -> None:
    at = to_datetime(clock.now_ms()) - timedelta(seconds=ago_s)
    begin = DeadLetter.objects.count()
    common = {"topic": "booking.created", "subscription": "billing", "source": "/t", "position": "1", "body": b"{}"}
    DeadLetter.objects.bulk_create(
        DeadLetter(
            **common,
            message_id=f"m-{begin + number}",
            cause="Boom",
            error="Boom",
            fingerprint="f",
            attempts=1,
            first_failed_at=at,
            died_at=at,
        )
        for number in range(count)
    )


def test_the_age_of_the_oldest(watch: Watch) -> None:
    rule("oldest", 300)
    watch.clock.advance(10)
    watch.sample(5, oldest_s=299)
    watch.evaluator.tick()
    assert watch.states() == []
    watch.clock.advance(10)
    watch.sample(5, oldest_s=301)
    watch.evaluator.tick()
    assert Alert.objects.get().value == 301


@pytest.mark.parametrize("oldest_s", [0, 20])
def test_what_the_store_cannot_tell_ends_no_alert(watch: Watch, oldest_s: float) -> None:
    rule("oldest", 300)
    watch.clock.advance(10)
    watch.sample(5, oldest_s=301)
    watch.evaluator.tick()
    assert watch.states() == ["firing"]
    for _ in range(12):
        watch.clock.advance(10)
        watch.sample(None, oldest_s=oldest_s)
        watch.evaluator.tick()
    assert watch.states() == ["firing"]
    assert Alert.objects.get().value == 301
    for _ in range(12):
        watch.clock.advance(10)
        watch.sample(0)
        watch.evaluator.tick()
    assert watch.states() == ["resolved"]


def test_dead_letters_that_wait(watch: Watch) -> None:
    rule("dead_letters", 3)
    die(watch.clock, 2)
    assert watch.go(0) == []
    die(watch.clock, 1)
    assert watch.go(0) == ["firing"]
    DeadLetter.objects.update(state=DeadLetter.State.REDRIVEN)
    assert watch.go(0) == ["resolved"]


def test_dead_letters_in_percent_of_the_limit(watch: Watch, settings: Settings) -> None:
    settings.DEAD_LETTER_LIMIT = 4
    rule("dead_letter_limit", 100)
    die(watch.clock, 3)
    assert watch.go(0) == []
    die(watch.clock, 2)
    assert watch.go(0) == ["firing"]
    alert = Alert.objects.get()
    assert (alert.value, kinds()["dead_letter_limit"].said(alert.value)) == (125, "125 %")
    assert DeadLetter.objects.count() == 5
    settings.DEAD_LETTER_LIMIT = 0
    assert watch.go(0) == ["resolved"], "0 is no limit"


def test_messages_of_parked_keys(watch: Watch) -> None:
    rule("parked", 1)
    assert watch.go(0) == []
    watch.clock.advance(10)
    watch.sample(0, parked=2)
    watch.evaluator.tick()
    assert (watch.states(), Alert.objects.get().value) == (["firing"], 2)
    assert watch.go(0) == ["resolved"]


def test_dead_letters_within_a_time_whatever_was_decided(watch: Watch) -> None:
    rule("dead_letter_rate", 3, window_s=60)
    die(watch.clock, 2, ago_s=120)
    die(watch.clock, 3)
    DeadLetter.objects.update(state=DeadLetter.State.DISCARDED)
    assert watch.go(0) == ["firing"]
    assert Alert.objects.get().value == 3
    assert watch.go(0, rounds=6) == ["resolved"], "a minute later they are out of the window"


def test_failed_publishes_are_counted_in_messages(watch: Watch) -> None:
    rule("publish_failures", 400, window_s=60)
    book(Fact("publish_failed", watch.clock.now_ms(), "booking.created", size=399))
    assert watch.go(0) == []
    book(Fact("publish_failed", watch.clock.now_ms(), "booking.created", size=1))
    assert watch.go(0) == ["firing"]
    alert = Alert.objects.get()
    assert (alert.namespace, alert.subject_name, alert.value) == ("booking.created", "", 400)
    assert watch.go(0, rounds=9) == ["resolved"]


@pytest.fixture
def board(watch: Watch, own_keys: None, settings: Settings) -> RedisBreakers:
    """Where the consumers of this installation would note that a breaker opened."""
    return RedisBreakers(store.client(), settings.HBUS_PREFIX, watch.clock)


def test_a_breaker_that_is_open(watch: Watch, board: RedisBreakers) -> None:
    rule("breaker_open", 30)
    board.trip(*READER, "c1", "away", PAUSES)
    assert watch.go(0, rounds=2) == []
    # Opening again is not a new beginning.
    assert board.probe(*READER, "c1").state == "probing"
    assert board.failed(*READER, "c1", "still away", PAUSES).state == "open"
    assert watch.go(0) == ["firing"]
    assert Alert.objects.get().value == 30
    board.force_close(*READER, "mended")
    assert watch.go(0) == ["resolved"]


def test_a_breaker_that_a_person_opened_stays_open_however_long(watch: Watch, board: RedisBreakers) -> None:
    rule("breaker_open", 30)
    board.force_open(*READER, "the partner moves house")
    assert watch.go(0, rounds=3) == ["firing"]
    watch.clock.advance(100 * 86_400)
    assert watch.go(0) == ["firing"]
    assert Alert.objects.get().value == 100 * 86_400 + 40


def test_while_the_board_cannot_be_asked_the_alert_stays(
    watch: Watch, board: RedisBreakers, settings: Settings
) -> None:
    rule("breaker_open", 30)
    board.force_open(*READER, "the partner moves house")
    assert watch.go(0, rounds=3) == ["firing"]
    store.close()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert watch.go(0, rounds=3) == ["firing"]
    assert Alert.objects.get().value == 30


def test_a_breaker_that_closed_again_is_not_said_to_be_open() -> None:
    kind = kinds()["breaker_open"]
    assert [kind.said(value) for value in (-1.0, 0.0, 0.5, 90.0)] == ["closed by now", "0 s", "0.5 s", "1 m 30 s"]


def test_a_silent_topic(watch: Watch) -> None:
    rule("silent_topic", 5, topics="booking.created")
    Topic.objects.update(created_at=to_datetime(watch.clock.now_ms() - 86_400_000))
    book(Fact("published", watch.clock.now_ms(), "booking.created"))
    assert watch.go(0, rounds=30) == []
    assert watch.go(0, rounds=2) == ["firing"]
    watch.clock.advance(10)
    book(Fact("published", watch.clock.now_ms(), "booking.created"))
    assert watch.go(0) == ["resolved"]


def test_silence_while_nobody_watched_is_not_held_against_a_topic(watch: Watch) -> None:
    """The installation was off over night: in the morning every topic was silent for ten hours."""
    rule("silent_topic", 5)
    Topic.objects.update(created_at=to_datetime(watch.clock.now_ms() - 86_400_000))
    watch.clock.advance(36_000)
    assert watch.go(0, rounds=30) == []
    assert watch.go(0, rounds=2) == ["firing"]
    # But what was silent before goes on to be: a restart of the keeper is no message.
    watch.clock.advance(120)
    watch.evaluator = AlertEvaluator(clock=watch.clock)
    assert watch.go(0) == ["firing"]


@pytest.mark.parametrize("kind", ["lag", "oldest"])
def test_an_old_sample_tells_nothing(watch: Watch, kind: str) -> None:
    rule(kind, 1)
    watch.clock.advance(10)
    watch.sample(5, oldest_s=50)
    watch.clock.advance(61)
    watch.evaluator.tick()
    assert watch.states() == []


def test_a_round_over_500_topics_with_5_subscriptions_each_is_cheap(db: None, clock: ManualClock) -> None:
    services.ensure_defaults()
    Rule.objects.update(enabled=True)
    team = Team.objects.create(name="All", contact="#x")
    topics = Topic.objects.bulk_create(
        Topic(name=f"area-{number // 50}.topic-{number}", team=team) for number in range(500)
    )
    Subscription.objects.bulk_create(
        Subscription(topic=it, group=f"reader-{number}", team=team) for it in topics for number in range(5)
    )
    evaluator = AlertEvaluator(clock=clock)
    took = []
    for _ in range(4):
        clock.advance(10)
        kept(clock.now_ms())
        LagSample.objects.bulk_create(
            LagSample(
                at_ms=clock.now_ms(),
                topic=it.name,
                subscription=f"reader-{number}",
                waiting=3,
                in_flight=1,
                retrying=0,
                oldest_ms=clock.now_ms() - 900,
            )
            for it in topics
            for number in range(5)
        )
        with (
            database_work("default") as settings,
            database_work("ledger") as samples,
            CaptureQueriesContext(connections["default"]) as asked,
            CaptureQueriesContext(connections["ledger"]) as read,
            calls() as own,
        ):
            evaluator.tick()
        # Some rows a subscription, and no walk over all of one kind for each of another.
        settings.at_most(60_000)
        samples.at_most(90_000)
        took.append((len(asked) + len(read), own.units))
    # The first round asks once for each topic when it was last published to; the later ones do not.
    for queries, own_calls in took[1:]:
        # One of them asks of when the evidence is.
        assert queries <= 25
        assert own_calls < 550_000


def test_a_breaker_that_closed_again_is_told_so_while_its_alert_still_fires() -> None:
    alert = Alert(
        kind="breaker_open", subject_kind="subscription", namespace="t", subject_name="billing",
        state=Alert.State.FIRING, value=-1, peak=90,
    )  # fmt: skip
    assert sentence(alert).endswith(": closed by now; it peaked at 1 m 30 s.")
