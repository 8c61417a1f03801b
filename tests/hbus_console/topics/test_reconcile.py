"""What a crash between the commit and the store's call left undone is done by the keeper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_django import Settings

from engine.bus.conformance.running import FactRecorder
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from hbus_console.access.permissions import SYSTEM
from hbus_console.parts import PartsFailed
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.reconcile import TopicReconciler, ensure_transport_objects
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.topics import services as topics
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus, fact_log, store
from tests.store_work import store_reads

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]


@pytest.fixture
def billing(topic: Topic) -> Subscription:
    """A row whose after-commit work never ran."""
    return subscriptions.create_subscription(SYSTEM, SubscriptionDraft(topic.name, "billing", "Reservations"))


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> FactRecorder:
    seen = FactRecorder()
    monkeypatch.setattr(fact_log, "emitter", lambda: seen)
    return seen


def test_a_group_and_its_pause_are_made(billing: Subscription, facts: FactRecorder) -> None:
    subscriptions.pause_subscription(SYSTEM, "booking.created", "billing", "x")
    done = ensure_transport_objects()
    assert (done.groups_made, done.pauses_set) == (["booking.created/billing"], ["booking.created/billing"])
    assert bus.admin().lag("booking.created", "billing").paused
    assert facts.seen == []


def test_the_second_time_there_is_nothing_to_do(billing: Subscription) -> None:
    ensure_transport_objects()
    done = ensure_transport_objects()
    assert (done.groups_made, done.pauses_set, done.removed) == ([], [], [])


def test_a_group_that_vanished_goes_on_at_its_checkpoint_and_a_fact_says_so(
    billing: Subscription, facts: FactRecorder
) -> None:
    first = shared_producer().publish("booking.created", {"n": 1})
    shared_producer().publish("booking.created", {"n": 2})
    facts.seen.clear()
    Subscription.objects.update(checkpoint=first.position, checkpoint_at=billing.created_at)
    clock = ManualClock()
    ensure_transport_objects(clock)
    assert bus.admin().lag("booking.created", "billing").waiting == 1
    (fact,) = facts.seen
    assert (fact.kind, fact.subscription, fact.position, fact.at_ms) == (
        "group_lost",
        "billing",
        first.position,
        clock.now_ms(),
    )


def test_a_pause_taken_back_is_taken_back_in_the_store(billing: Subscription) -> None:
    ensure_transport_objects()
    bus.admin().pause("booking.created", "billing")
    assert ensure_transport_objects().pauses_set == ["booking.created/billing"]
    assert not bus.admin().lag("booking.created", "billing").paused


def test_what_was_deleted_leaves_the_store(billing: Subscription, topic: Topic) -> None:
    ensure_transport_objects()
    shared_producer().publish(topic.name, {})
    subscriptions.delete_subscription(SYSTEM, topic.name, "billing", "billing", "moved")
    assert ensure_transport_objects().removed == ["booking.created/billing"]
    assert bus.admin().groups(topic.name) == []
    topics.delete_topic(SYSTEM, topic.name, topic.name, "old")
    assert ensure_transport_objects().removed == ["booking.created"]
    assert bus.admin().depth(topic.name).messages == 0
    assert not StoreRemoval.objects.exists()


def test_a_topic_whose_store_is_gone_keeps_no_other_from_being_brought_in_line(
    billing: Subscription, topic: Topic
) -> None:
    Topic.objects.filter(pk=topic.pk).update(name="a.first", transport="redis_stream@gone")
    topics.create_topic(SYSTEM, TopicDraft("b.second", "Reservations"))
    subscriptions.create_subscription(SYSTEM, SubscriptionDraft("b.second", "billing", "Reservations"))
    StoreRemoval.objects.create(topic="c.third", transport="redis_stream@gone")
    done = ensure_transport_objects()
    assert done.groups_made == ["b.second/billing"]
    assert {fault.part for fault in done.left.faults} == {"c.third", "a.first", "a.first/billing"}
    with pytest.raises(PartsFailed, match=r"^c\.third, a\.first, a\.first/billing could not be brought in line"):
        TopicReconciler().tick()
    assert StoreRemoval.objects.count() == 1


def test_a_store_that_is_away_is_said_and_tried_again(
    billing: Subscription, monkeypatch: pytest.MonkeyPatch, committed: Callable[..., None]
) -> None:
    def away(*args: object) -> None:
        raise Unavailable("The store is away.")

    duty = TopicReconciler()
    with monkeypatch.context() as patch:
        patch.setattr(bus, "admin", away)
        with pytest.raises(Unavailable):
            duty.tick()
    duty.tick()
    assert bus.admin().groups("booking.created") == ["billing"]


def test_three_hundred_subscriptions_in_line_are_asked_in_a_few_round_trips(
    topic: Topic, own_store: StandaloneStore, settings: Settings
) -> None:
    settings.HBUS_STORES = {"own": own_store.url}
    topics_ = Topic.objects.bulk_create(Topic(name=f"t{number}", transport="redis_stream@own") for number in range(300))
    Subscription.objects.bulk_create(Subscription(topic=each, group="g") for each in topics_)
    assert len(ensure_transport_objects().groups_made) == 300
    bus.admin("redis_stream@own").delete_group("t7", "g")
    bus.admin("redis_stream@own").pause("t8", "g")
    with store_reads(own_store.url) as cost:
        done = ensure_transport_objects()
    assert (done.groups_made, done.pauses_set) == (["t7/g"], ["t8/g"])
    cost.at_most(80, "reads for 300 subscriptions")
    store.close()
