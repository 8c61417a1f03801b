"""Handlers in code become subscriptions, and what a person set stays set."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from engine.bus import handlers
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.subscriptions import services
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.declarations import Brought
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.wiring import bus
from tests.hbus_console.topics.conftest import EDITOR, OPERATOR

pytestmark = [
    pytest.mark.django_db(databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "no_handlers"),
]


@pytest.fixture
def no_handlers() -> Iterator[None]:
    before = handlers.registrations()
    handlers.clear()
    yield
    handlers.clear()
    for one in before:
        handlers.subscription(topic=one.topic, group=one.group)(one.function)


def declare(group: str = "billing", **policy: object) -> None:
    def bill(event: dict[str, object]) -> None:
        return

    handlers.clear()
    handlers.subscription(topic="booking.created", group=group, **policy)(bill)  # type: ignore[arg-type]


def test_a_declared_handler_becomes_a_subscription_with_its_policies(
    topic: Topic, committed: Callable[..., None], told: Callable[[], list[str]]
) -> None:
    declare(concurrency=2, max_attempts=3, backoff_s=(1.0, 2.0), lease_s=60.0, transactional=True)
    committed(services.sync_registrations)
    row = Subscription.objects.get()
    assert (row.concurrency, row.max_attempts, row.backoff_s, row.lease_s, row.transactional) == (
        2,
        3,
        [1.0, 2.0],
        60,
        True,
    )
    assert row.handler_name.endswith("bill")
    assert row.team is None
    assert bus.admin().groups(topic.name) == ["billing"]
    assert told() == ["subscription.declare"]


def test_a_second_sync_changes_nothing(topic: Topic, told: Callable[[], list[str]]) -> None:
    declare()
    assert services.sync_registrations().created == ["booking.created/billing"]
    report = services.sync_registrations()
    assert (report.created, report.changed, report.gone) == ([], [], [])
    assert told() == ["subscription.declare"]


def test_what_a_person_set_wins_and_the_rest_follows_the_code(topic: Topic) -> None:
    declare(concurrency=2, lease_s=30.0)
    services.sync_registrations()
    services.change_subscription(EDITOR, topic.name, "billing", {"concurrency": 9})
    declare(concurrency=3, lease_s=60.0)
    assert services.sync_registrations().changed == ["booking.created/billing"]
    row = Subscription.objects.get()
    assert (row.concurrency, row.lease_s) == (9, 60)
    services.follow_code(EDITOR, topic.name, "billing")
    services.sync_registrations()
    assert Subscription.objects.get().concurrency == 3


def test_a_handler_for_a_topic_that_is_not_there_waits(db: None) -> None:
    declare()
    assert services.sync_registrations().waiting == ["booking.created/billing"]
    assert not Subscription.objects.exists()


def test_a_handler_waits_while_a_deleted_subscription_of_its_name_is_in_the_store(topic: Topic) -> None:
    """Its removal would take the new one's group with it."""
    declare()
    removal = StoreRemoval.objects.create(topic=topic.name, group="billing", transport="redis_stream")
    assert services.sync_registrations().leaving == ["booking.created/billing"]
    assert not Subscription.objects.exists()
    removal.delete()
    assert services.sync_registrations().created == ["booking.created/billing"]


def test_a_handler_gone_from_the_code_leaves_its_subscription_to_a_person(topic: Topic) -> None:
    declare()
    services.sync_registrations()
    handlers.clear()
    assert services.sync_registrations().gone == ["booking.created/billing"]
    row = Subscription.objects.get()
    assert row.handler_name == ""
    services.delete_subscription(EDITOR, topic.name, "billing", "billing", "no longer needed")
    assert not Subscription.objects.exists()


def test_a_webhook_of_the_same_name_is_left_alone(topic: Topic) -> None:
    services.create_subscription(
        SYSTEM,
        services.SubscriptionDraft(
            topic.name, "billing", "Reservations", handler="webhook", webhook_url="https://93.184.216.34/"
        ),
    )
    declare(concurrency=9)
    services.sync_registrations()
    assert Subscription.objects.get().concurrency == 4


def test_syncing_takes_what_creating_takes(topic: Topic) -> None:
    declare()
    with pytest.raises(Forbidden):
        services.sync_registrations(OPERATOR)


def test_two_versions_side_by_side_do_not_undo_each_others_declarations(
    topic: Topic, told: Callable[[], list[str]]
) -> None:
    old: Brought = {}
    new: Brought = {}
    declare(concurrency=2)
    services.sync_registrations(brought=old)
    declare(concurrency=3)
    # Whoever begins last has the word, and each look after that changes nothing.
    assert services.sync_registrations(brought=new).changed == ["booking.created/billing"]
    for concurrency, brought in ((2, old), (3, new)) * 3:
        declare(concurrency=concurrency)
        report = services.sync_registrations(brought=brought)
        assert (report.created, report.changed, report.gone) == ([], [], [])
        assert Subscription.objects.get().concurrency == 3
    assert told() == ["subscription.declare", "subscription.declare"]


def test_a_field_that_a_person_let_go_of_follows_the_code_again(topic: Topic) -> None:
    brought: Brought = {}
    declare(concurrency=2)
    services.sync_registrations(brought=brought)
    services.change_subscription(EDITOR, topic.name, "billing", {"concurrency": 9})
    services.sync_registrations(brought=brought)
    services.follow_code(EDITOR, topic.name, "billing")
    services.sync_registrations(brought=brought)
    assert Subscription.objects.get().concurrency == 2


def test_a_handler_that_another_process_runs_is_not_gone_from_the_code(topic: Topic) -> None:
    brought: Brought = {}
    declare()
    services.sync_registrations(brought=brought)
    for hosted in ({("booking.created", "billing")}, None):
        handlers.clear()
        assert services.sync_registrations(hosted=lambda known=hosted: known).gone == []
        assert Subscription.objects.get().handler_name
    handlers.clear()
    assert services.sync_registrations(hosted=lambda: {("booking.created", "other")}).gone == [
        "booking.created/billing"
    ]
    # Who declares it says so again, although it has brought it before.
    declare()
    services.sync_registrations(brought=brought)
    assert Subscription.objects.get().handler_name
