"""Messages that are due and refused, or behind a store that does not take them, need a person, fire, and mark pages."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from engine.bus import producer
from engine.bus.delay_mover import DelayMover
from engine.bus.options import PublishOptions
from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import Unavailable
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.alerts.models import Alert
from hbus_console.publishing import concerns, live
from hbus_console.publishing.producer import shared_producer
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.ui.concern import Concern, Look, listed
from hbus_console.wiring import bus
from tests.hbus_console.alerts.conftest import Watch, rule
from tests.hbus_console.topics.conftest import actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def clock(own_keys: None, monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    made = ManualClock(SystemClock().now_ms())
    # Of the producer as well: what is due by one of them and not by the other is kept again.
    monkeypatch.setattr(producer, "SystemClock", lambda: made)
    bus.delays()._clock = made
    return made


@pytest.fixture
def refused(topic: Topic, clock: ManualClock) -> Topic:
    """A topic, two of whose messages were refused because nobody owns it any more."""
    for number in range(2):
        shared_producer().publish(topic.name, {"n": number}, PublishOptions(delay_s=1))
    topics.change_topic(SYSTEM, topic.name, {"owner": ""}, "a trial")
    clock.advance(3)
    DelayMover(bus.delays(), shared_producer).tick()
    return topic


def found(who: Actor = SYSTEM) -> list[Concern]:
    return listed(concerns.concerns(Look(who, bus.delays().clock.now_ms())))


def marks(*scopes: str) -> object:
    return live.cells(0, scopes).marks["due"]


def test_what_is_refused_needs_a_person_with_count_and_cause_until_it_is_published(
    refused: Topic, clock: ManualClock
) -> None:
    (concern,) = found()
    assert concern.text == "2 due messages for booking.created are refused"
    assert concern.note.startswith("Topic 'booking.created' has no owner. · since ")
    assert concern.note.endswith("kept, and published by themselves once that is mended")
    assert (concern.tone, concern.href) == ("bad", "/messages/?topic=booking.created&outcome=unsettled&range=7d")
    topics.change_topic(SYSTEM, refused.name, {"owner": "Reservations"}, "mended")
    clock.advance(60)
    DelayMover(bus.delays(), shared_producer).tick()
    assert found() == []
    assert bus.admin().depth(refused.name).messages == 2


def test_it_is_told_to_those_who_may_see_the_topic(refused: Topic) -> None:
    assert len(found(actor(Role.VIEWER, "booking.*"))) == 1
    assert found(actor(Role.VIEWER, "stay.*")) == []
    assert marks("stay.*") == ((), ())
    assert marks("booking.*") == ((("booking.created", 2, "Topic 'booking.created' has no owner."),), ())
    # Of a topic that is gone, as everywhere, by those who see all.
    Topic.objects.all().delete()
    assert found(actor(Role.VIEWER, "booking.*")) == []
    assert len(found()) == 1


def test_what_waits_for_a_store_needs_a_person_after_a_minute(topic: Topic, clock: ManualClock) -> None:
    shared_producer().publish(topic.name, {"n": 1}, PublishOptions(delay_s=1))
    clock.advance(2)
    bus.delays().set_aside(topic.name, bus.delays().due())
    clock.advance(50)
    assert found() == []
    clock.advance(20)
    (concern,) = found()
    assert concern.text == "Due messages for booking.created wait: its store does not take them"
    assert concern.note.startswith("the oldest was due 1 m")
    assert concern.tone == "warn"


def test_where_the_store_cannot_be_asked_nothing_is_said_of_it(refused: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: object) -> None:
        raise Unavailable("The store is away.")

    monkeypatch.setattr(type(bus.delays()), "behind", away)
    assert found() == []
    assert marks("*") == ((), ())


def test_an_alert_fires_while_any_is_refused_and_ends_with_it(refused: Topic, clock: ManualClock) -> None:
    watch = Watch(clock)
    watch.go(None, rounds=8)
    rule("due_refused", 1)
    assert watch.go(None) == ["firing"]
    assert (Alert.objects.get().value, Alert.objects.get().namespace) == (2, refused.name)
    topics.change_topic(SYSTEM, refused.name, {"owner": "Reservations"}, "mended")
    clock.advance(60)
    DelayMover(bus.delays(), shared_producer).tick()
    assert watch.go(None, rounds=2) == ["resolved"]


def test_where_nothing_is_refused_the_database_is_not_asked(
    topic: Topic, clock: ManualClock, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert found(actor(Role.VIEWER, "booking.*")) == []
