"""Topics through their services: who may, what is refused, what is told, and what the store does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from engine.bus.errors import OwnerlessTopic, UnknownTopic
from engine.bus.transport import Capabilities
from engine.core.errors import BadInput, Conflict, Unavailable
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.teams.models import Team
from hbus_console.topics import services as topics
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.services import TopicDraft, topic_rules
from hbus_console.wiring import bus
from tests.hbus_console.topics.conftest import EDITOR, GOVERNOR, OPERATOR, VIEWER, actor

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]

DRAFT = TopicDraft(name="booking.created", owner="Reservations")


def test_a_created_topic_is_stored_told_and_in_the_store(
    team: Team, committed: Callable[..., None], told: Callable[[], list[str]]
) -> None:
    committed(lambda: topics.create_topic(EDITOR, DRAFT, "new bookings"))
    row = Topic.objects.get()
    assert (row.name, row.team, row.revision) == ("booking.created", team, 1)
    entry = AuditEntry.objects.get(action="topic.create")
    assert (entry.actor, entry.target, entry.reason) == ("a-editor", "booking.created", "new bookings")
    assert entry.after["owner"] == "Reservations"
    assert bus.admin().depth("booking.created").messages == 0


@pytest.mark.parametrize("who", [VIEWER, OPERATOR, actor(Role.EDITOR, "stay.*")])
def test_creating_takes_an_editor_of_the_namespace(who: Actor, team: Team, told: Callable[[], list[str]]) -> None:
    with pytest.raises(Forbidden):
        topics.create_topic(who, DRAFT)
    assert not Topic.objects.exists()
    assert told() == []


@pytest.mark.parametrize(
    "name", ["", "Booking", "booking..created", ".booking", "booking created", "b" * 65, "ünï", "a/b", "a-", "a\n"]
)
def test_a_bad_name_is_refused(name: str, team: Team) -> None:
    with pytest.raises(BadInput) as refused:
        topics.create_topic(SYSTEM, replace(DRAFT, name=name))
    assert refused.value.field == "name"
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"owner": ""}, "owner"),
        ({"owner": "Nobody"}, "owner"),
        ({"classification": "secret"}, "classification"),
        ({"classification": "personal"}, "masked_fields"),
        ({"masked_fields": ("a[1]",)}, "masked_fields"),
        ({"masked_fields": ("a",), "nothing_to_mask": True}, "nothing_to_mask"),
        ({"compatibility": "sideways"}, "compatibility"),
        ({"ordering": "total"}, "ordering"),
        ({"ordering": "key", "priorities": True}, "priorities"),
        ({"retention_hours": 0}, "retention_hours"),
        ({"retention_hours": 87_601}, "retention_hours"),
        ({"retention_hours": True}, "retention_hours"),
        ({"retention_messages": -1}, "retention_messages"),
        ({"max_bytes": 10}, "max_bytes"),
        ({"max_bytes": 17 * 1024 * 1024}, "max_bytes"),
        ({"idempotency_window_s": 0}, "idempotency_window_s"),
        ({"ttl_s": -1}, "ttl_s"),
        ({"transport": "carrier-pigeon"}, "transport"),
        ({"description": "x\x00"}, "description"),
        ({"schema": {"type": "objct"}}, "body"),
    ],
)
def test_a_bad_setting_is_refused_at_its_field_and_leaves_nothing(
    change: dict[str, Any], field: str, team: Team, told: Callable[[], list[str]]
) -> None:
    with pytest.raises(BadInput) as refused:
        topics.create_topic(SYSTEM, replace(DRAFT, **change))
    assert refused.value.field == field
    assert refused.value.remedy
    assert not Topic.objects.exists()
    assert told() == []


def test_a_personal_topic_may_say_that_there_is_nothing_to_mask(team: Team) -> None:
    topics.create_topic(SYSTEM, replace(DRAFT, classification="personal", nothing_to_mask=True))
    topics.create_topic(SYSTEM, replace(DRAFT, name="b", classification="personal", masked_fields=("guest.name",)))
    assert Topic.objects.get(name="b").masked_fields == ["guest.name"]


def test_ordering_by_key_switches_priorities_off_unless_asked(team: Team) -> None:
    assert topics.create_topic(SYSTEM, DRAFT).priorities
    assert not topics.create_topic(SYSTEM, replace(DRAFT, name="b", ordering="key")).priorities


@pytest.mark.parametrize(
    ("lacks", "change", "field"),
    [
        ("ordered", {"ordering": "key"}, "ordering"),
        ("priority", {"priorities": True}, "priorities"),
        ("idempotent_publish", {}, "idempotency_window_s"),
    ],
)
def test_what_the_transport_cannot_do_is_refused_when_configured(
    lacks: str, change: dict[str, Any], field: str, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    able = Capabilities(
        durable=True, browse=True, seek=True, priority=True, idempotent_publish=True, ordered=True, pause=True
    )
    monkeypatch.setattr(topic_rules, "capabilities", lambda name: replace(able, **{lacks: False}))
    with pytest.raises(BadInput) as refused:
        topics.create_topic(SYSTEM, replace(DRAFT, **change))
    assert refused.value.field == field


def test_a_taken_name_is_a_conflict(topic: Topic) -> None:
    with pytest.raises(Conflict):
        topics.create_topic(SYSTEM, DRAFT)


def test_a_change_raises_the_revision_and_tells_before_and_after(topic: Topic) -> None:
    topics.change_topic(GOVERNOR, topic.name, {"retention_hours": 24, "ttl_s": 60}, "because")
    topic.refresh_from_db()
    assert (topic.retention_hours, topic.ttl_s, topic.revision) == (24, 60, 2)
    entry = AuditEntry.objects.get(action="topic.change")
    assert (entry.before["retention_hours"], entry.after["retention_hours"]) == (168, 24)


def test_changing_nothing_leaves_no_trace(topic: Topic, told: Callable[[], list[str]]) -> None:
    topics.change_topic(EDITOR, topic.name, {"retention_hours": 168, "masked_fields": (), "owner": "Reservations"})
    topic.refresh_from_db()
    assert (topic.revision, told()) == (1, [])


@pytest.mark.parametrize(
    "change",
    [
        {"owner": ""},
        {"classification": "public"},
        {"masked_fields": ["a"]},
        {"compatibility": "none"},
        {"retention_hours": 1},
        {"retention_messages": 1},
    ],
)
def test_governance_takes_a_governor_and_a_reason(change: dict[str, Any], topic: Topic) -> None:
    with pytest.raises(Forbidden):
        topics.change_topic(EDITOR, topic.name, change, "because")
    with pytest.raises(BadInput) as refused:
        topics.change_topic(GOVERNOR, topic.name, change)
    assert refused.value.field == "reason"
    topics.change_topic(GOVERNOR, topic.name, change, "because")
    assert AuditEntry.objects.get(action="topic.change").reason == "because"


def test_a_mixed_change_by_an_editor_changes_nothing(topic: Topic) -> None:
    with pytest.raises(Forbidden):
        topics.change_topic(EDITOR, topic.name, {"ttl_s": 9, "classification": "public"}, "because")
    topic.refresh_from_db()
    assert topic.ttl_s == 0


def test_an_unknown_setting_is_refused(topic: Topic) -> None:
    with pytest.raises(BadInput) as refused:
        topics.change_topic(SYSTEM, topic.name, {"paused": True})
    assert refused.value.field == "paused"


def test_a_form_that_is_too_old_is_a_conflict(topic: Topic) -> None:
    topics.change_topic(EDITOR, topic.name, {"ttl_s": 60}, revision=1)
    with pytest.raises(Conflict):
        topics.change_topic(EDITOR, topic.name, {"ttl_s": 90}, revision=1)


def test_without_its_owner_a_topic_refuses_publishes_until_somebody_takes_over(topic: Topic) -> None:
    topics.change_topic(GOVERNOR, topic.name, {"owner": ""}, "team dissolved")
    with pytest.raises(OwnerlessTopic):
        shared_producer().publish(topic.name, {})
    topics.change_topic(GOVERNOR, topic.name, {"owner": "Reservations"}, "taken over")
    assert shared_producer().publish(topic.name, {}).position


def test_an_unknown_topic_is_said_to_be_unknown(db: None) -> None:
    with pytest.raises(UnknownTopic):
        topics.change_topic(SYSTEM, "no.such", {"ttl_s": 1})


def test_pausing_holds_every_subscription_and_resuming_leaves_those_paused_themselves(
    topic: Topic, committed: Callable[..., None], told: Callable[[], list[str]]
) -> None:
    def paused(group: str) -> bool:
        return bus.admin().lag(topic.name, group).paused

    def make() -> None:
        for group in ("billing", "sync"):
            subscriptions.create_subscription(SYSTEM, SubscriptionDraft(topic.name, group, "Reservations"))

    committed(make)
    committed(lambda: subscriptions.pause_subscription(OPERATOR, topic.name, "sync", "partner is down"))
    committed(lambda: topics.pause_topic(OPERATOR, topic.name, "migration"))
    assert (paused("billing"), paused("sync")) == (True, True)
    committed(lambda: topics.pause_topic(OPERATOR, topic.name, "again"))
    committed(lambda: topics.resume_topic(OPERATOR, topic.name))
    assert (paused("billing"), paused("sync")) == (False, True)
    assert told()[2:] == ["subscription.pause", "topic.pause", "topic.resume"]


def test_pausing_needs_an_operator_and_a_reason(topic: Topic) -> None:
    with pytest.raises(Forbidden):
        topics.pause_topic(VIEWER, topic.name, "x")
    with pytest.raises(BadInput) as refused:
        topics.pause_topic(OPERATOR, topic.name, "  ")
    assert refused.value.field == "reason"


def test_a_topic_with_readers_cannot_be_deleted(topic: Topic) -> None:
    subscriptions.create_subscription(SYSTEM, SubscriptionDraft(topic.name, "billing", "Reservations"))
    with pytest.raises(Conflict, match="billing"):
        topics.delete_topic(GOVERNOR, topic.name, topic.name, "old")


def test_deleting_takes_a_governor_the_typed_name_and_a_reason(topic: Topic) -> None:
    for who, typed, reason, error in (
        (EDITOR, topic.name, "old", Forbidden),
        (GOVERNOR, "booking", "old", BadInput),
        (GOVERNOR, topic.name, "", BadInput),
    ):
        with pytest.raises(error):
            topics.delete_topic(who, topic.name, typed, reason)
    assert Topic.objects.filter(pk=topic.pk).exists()


def test_a_deleted_topic_leaves_the_store_and_its_audit(topic: Topic, committed: Callable[..., None]) -> None:
    shared_producer().publish(topic.name, {"n": 1})
    committed(lambda: topics.delete_topic(GOVERNOR, topic.name, topic.name, "old"))
    assert bus.admin().depth(topic.name).messages == 0
    assert not StoreRemoval.objects.exists()
    assert AuditEntry.objects.get(action="topic.delete").before["owner"] == "Reservations"
    with pytest.raises(UnknownTopic):
        shared_producer().publish(topic.name, {})


def test_with_the_store_away_the_row_still_holds(
    topic: Topic, committed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object) -> None:
        raise Unavailable("The store is away.")

    monkeypatch.setattr(bus, "admin", away)
    committed(lambda: topics.delete_topic(GOVERNOR, topic.name, topic.name, "old"))
    assert StoreRemoval.objects.get().topic == topic.name
    with pytest.raises(Conflict, match="still being removed"):
        topics.create_topic(SYSTEM, DRAFT)


def test_a_topic_changes_its_transport_only_when_all_is_settled(
    topic: Topic, committed: Callable[..., None], settings: Settings
) -> None:
    committed(
        lambda: subscriptions.create_subscription(SYSTEM, SubscriptionDraft(topic.name, "billing", "Reservations"))
    )
    shared_producer().publish(topic.name, {})
    with pytest.raises(Conflict, match="billing") as refused:
        topics.change_topic(GOVERNOR, topic.name, {"transport": "redis_stream"}, "one setting")
    assert refused.value.field == "transport"
    Subscription.objects.all().delete()
    topics.change_topic(GOVERNOR, topic.name, {"transport": "redis_stream"}, "one setting")
    assert Topic.objects.get().transport == "redis_stream"
