"""Subscriptions through their services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from engine.core.errors import BadInput, Conflict, NotThere
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.wiring import bus
from tests.hbus_console.topics.conftest import EDITOR, GOVERNOR, OPERATOR, VIEWER

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]

DRAFT = SubscriptionDraft(topic="booking.created", group="billing", owner="Reservations")
HOOK = replace(DRAFT, group="partner", handler="webhook", webhook_url="https://93.184.216.34/hooks")


@pytest.fixture
def billing(topic: Topic, committed: Callable[..., None]) -> Subscription:
    committed(lambda: services.create_subscription(EDITOR, DRAFT))
    return Subscription.objects.get(group="billing")


def test_a_created_subscription_is_told_and_has_its_group_in_the_store(billing: Subscription) -> None:
    assert bus.admin().groups("booking.created") == ["billing"]
    entry = AuditEntry.objects.get(action="subscription.create")
    assert (entry.target, entry.namespace, entry.after["owner"]) == (
        "booking.created/billing",
        "booking.created",
        "Reservations",
    )


def test_creating_takes_an_editor(topic: Topic) -> None:
    with pytest.raises(Forbidden):
        services.create_subscription(OPERATOR, DRAFT)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": "Billing"}, "group"),
        ({"owner": ""}, "owner"),
        ({"handler": "magic"}, "handler"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 65}, "concurrency"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"backoff_s": ()}, "backoff_s"),
        ({"backoff_s": (1.0, -1.0)}, "backoff_s"),
        ({"backoff_s": ("1",)}, "backoff_s"),
        ({"backoff_s": (float("nan"),)}, "backoff_s"),
        ({"lease_s": 0}, "lease_s"),
        ({"transactional": "yes"}, "transactional"),
        ({"start": "middle"}, "start"),
        ({"webhook_url": "https://a.example/"}, "webhook_url"),
        ({"handler": "webhook"}, "webhook_url"),
        ({"handler": "webhook", "webhook_url": "http://127.0.0.1/"}, "webhook_url"),
        ({"handler": "webhook", "webhook_url": HOOK.webhook_url, "transactional": True}, "transactional"),
        ({"handler": "webhook", "webhook_url": HOOK.webhook_url, "webhook_timeout_s": 301}, "webhook_timeout_s"),
    ],
)
def test_a_bad_setting_is_refused_at_its_field_and_leaves_nothing(
    change: dict[str, Any], field: str, topic: Topic, told: Callable[[], list[str]]
) -> None:
    with pytest.raises(BadInput) as refused:
        services.create_subscription(EDITOR, replace(DRAFT, **change))
    assert refused.value.field == field
    assert refused.value.remedy
    assert not Subscription.objects.exists()
    assert told() == []


def test_a_taken_group_is_a_conflict(billing: Subscription) -> None:
    with pytest.raises(Conflict):
        services.create_subscription(EDITOR, DRAFT)


def test_one_that_starts_at_the_end_misses_the_past_and_nothing_else(
    topic: Topic, django_capture_on_commit_callbacks: Any
) -> None:
    shared_producer().publish(topic.name, {"n": 1})
    with django_capture_on_commit_callbacks(execute=True):
        services.create_subscription(EDITOR, replace(DRAFT, start="end"))
        # Between the row and the store's group: must not be missed.
        shared_producer().publish(topic.name, {"n": 2})
    assert bus.admin().lag(topic.name, "billing").waiting == 1


def test_one_that_starts_at_the_beginning_gets_all(topic: Topic, committed: Callable[..., None]) -> None:
    shared_producer().publish(topic.name, {"n": 1})
    committed(lambda: services.create_subscription(EDITOR, DRAFT))
    assert bus.admin().lag(topic.name, "billing").waiting == 1


def test_a_webhook_gets_a_secret_that_no_log_holds(topic: Topic) -> None:
    row = services.create_subscription(EDITOR, HOOK)
    assert row.webhook_secret.startswith("whsec_")
    first = row.webhook_secret
    second = services.rotate_secret(EDITOR, topic.name, "partner", "leaked")
    assert second not in ("", first)
    assert Subscription.objects.get().webhook_secret == second
    for entry in AuditEntry.objects.all():
        assert first not in str(entry.after)
        assert second not in str(entry.after)


def test_only_a_webhook_has_a_secret(billing: Subscription) -> None:
    with pytest.raises(BadInput):
        services.rotate_secret(EDITOR, "booking.created", "billing", "leaked")


def test_a_webhook_cannot_be_led_inside_later(topic: Topic, settings: Settings) -> None:
    services.create_subscription(EDITOR, HOOK)
    with pytest.raises(BadInput) as refused:
        services.change_subscription(EDITOR, topic.name, "partner", {"webhook_url": "http://169.254.169.254/"})
    assert refused.value.field == "webhook_url"
    settings.HBUS_WEBHOOK_PRIVATE = True
    services.change_subscription(EDITOR, topic.name, "partner", {"webhook_url": "http://127.0.0.1/"})
    assert Subscription.objects.get().webhook_url == "http://127.0.0.1/"


@pytest.mark.parametrize("hides", [{"masked_fields": ["guest"]}, {"classification": "confidential"}])
def test_what_is_masked_leaves_by_a_webhook_of_who_may_reveal_it(topic: Topic, hides: dict[str, Any]) -> None:
    Topic.objects.update(**hides)
    with pytest.raises(Forbidden, match=r"may not reveal masked fields on booking.created, which a webhook would send"):
        services.create_subscription(EDITOR, HOOK)
    assert not Subscription.objects.exists()
    services.create_subscription(EDITOR, DRAFT)
    services.create_subscription(GOVERNOR, HOOK)
    away = {"webhook_url": "https://93.184.216.34/elsewhere"}
    with pytest.raises(Forbidden):
        services.change_subscription(EDITOR, topic.name, "partner", away)
    assert Subscription.objects.get(group="partner").webhook_url == HOOK.webhook_url
    services.change_subscription(EDITOR, topic.name, "partner", {"webhook_url": HOOK.webhook_url, "concurrency": 2})
    assert AuditEntry.objects.filter(action="payload.reveal").count() == 1
    services.change_subscription(GOVERNOR, topic.name, "partner", away, "they have moved")
    assert Subscription.objects.get(group="partner").webhook_url == away["webhook_url"]
    entry = AuditEntry.objects.filter(action="payload.reveal").latest("seq")
    assert (entry.target, entry.reason, entry.after["subscription"]) == (topic.name, "they have moved", "partner")
    assert entry.after["fields"] == hides.get("masked_fields", ["*"])
    assert entry.after["webhook_url"].startswith("https://93.184.216.34/elsewhere")


def test_a_change_is_told_raises_the_revision_and_holds_against_code(billing: Subscription) -> None:
    services.change_subscription(EDITOR, "booking.created", "billing", {"concurrency": 8, "description": "slow"})
    billing.refresh_from_db()
    assert (billing.concurrency, billing.revision, billing.held_fields) == (8, 2, ["concurrency"])
    entry = AuditEntry.objects.get(action="subscription.change")
    assert (entry.before["concurrency"], entry.after["concurrency"]) == (4, 8)


def test_changing_nothing_leaves_no_trace(billing: Subscription, told: Callable[[], list[str]]) -> None:
    services.change_subscription(EDITOR, "booking.created", "billing", {"concurrency": 4, "owner": "Reservations"})
    billing.refresh_from_db()
    assert (billing.revision, told()) == (1, [])


def test_a_change_leaves_the_keepers_checkpoint_alone(billing: Subscription) -> None:
    stale = services.subscription("booking.created", "billing")
    Subscription.objects.filter(pk=billing.pk).update(checkpoint="99-1")
    assert stale.checkpoint == ""
    services.pause_subscription(OPERATOR, "booking.created", "billing", "x")
    assert Subscription.objects.get().checkpoint == "99-1"


def test_a_form_that_is_too_old_is_a_conflict(billing: Subscription) -> None:
    services.change_subscription(EDITOR, "booking.created", "billing", {"lease_s": 60}, revision=1)
    with pytest.raises(Conflict):
        services.change_subscription(EDITOR, "booking.created", "billing", {"lease_s": 90}, revision=1)


@pytest.mark.parametrize("change", [{"paused": True}, {"handler": "webhook"}, {"webhook_secret": "x"}])
def test_what_is_no_setting_cannot_be_changed(change: dict[str, Any], billing: Subscription) -> None:
    with pytest.raises(BadInput):
        services.change_subscription(EDITOR, "booking.created", "billing", change)


def test_pause_and_resume_reach_the_store_and_leave_one_trace_each(
    billing: Subscription, committed: Callable[..., None], told: Callable[[], list[str]]
) -> None:
    admin = bus.admin()
    for _ in range(2):
        committed(lambda: services.pause_subscription(OPERATOR, "booking.created", "billing", "partner is down"))
    assert admin.lag("booking.created", "billing").paused
    assert Subscription.objects.get().pause_reason == "partner is down"
    for _ in range(2):
        committed(lambda: services.resume_subscription(OPERATOR, "booking.created", "billing"))
    assert not admin.lag("booking.created", "billing").paused
    assert Subscription.objects.get().pause_reason == ""
    assert told() == ["subscription.pause", "subscription.resume"]


def test_pausing_takes_an_operator_and_a_reason(billing: Subscription) -> None:
    with pytest.raises(Forbidden):
        services.pause_subscription(VIEWER, "booking.created", "billing", "x")
    with pytest.raises(BadInput) as refused:
        services.pause_subscription(OPERATOR, "booking.created", "billing", "")
    assert refused.value.field == "reason"
    with pytest.raises(NotThere):
        services.pause_subscription(OPERATOR, "booking.created", "nobody", "x")


def test_a_drain_ends_when_nothing_is_in_flight(billing: Subscription, committed: Callable[..., None]) -> None:
    from engine.bus.transport import Settlement

    shared_producer().publish("booking.created", {"n": 1})
    shared_producer().publish("booking.created", {"n": 2})
    receiver = bus.transport().receiver("booking.created", "billing", consumer="c1", lease_ms=30_000)
    (delivery,) = receiver.receive(1, 1)
    committed(lambda: services.drain(OPERATOR, "booking.created", "billing", "new release"))
    status = services.drain_status(VIEWER, "booking.created", "billing")
    assert (status.paused, status.in_flight, status.waiting, status.drained) == (True, 1, 1, False)
    assert receiver.settle([Settlement(delivery.receipt)]) == [True]
    assert services.drain_status(VIEWER, "booking.created", "billing").drained
    assert receiver.receive(1, 0) == []
    receiver.close()
    assert AuditEntry.objects.filter(action="subscription.drain").exists()


def test_deleting_takes_the_typed_name_a_reason_and_ends_in_the_store(
    billing: Subscription, committed: Callable[..., None]
) -> None:
    for who, typed, reason, error in (
        (OPERATOR, "billing", "x", Forbidden),
        (EDITOR, "bill", "x", BadInput),
        (EDITOR, "billing", "", BadInput),
    ):
        with pytest.raises(error):
            services.delete_subscription(who, "booking.created", "billing", typed, reason)
    committed(lambda: services.delete_subscription(EDITOR, "booking.created", "billing", "billing", "moved"))
    assert not Subscription.objects.exists()
    assert bus.admin().groups("booking.created") == []
    assert not StoreRemoval.objects.exists()


def test_what_code_declares_is_not_deleted_under_it(billing: Subscription) -> None:
    Subscription.objects.update(handler_name="examples.hotel.billing")
    with pytest.raises(Conflict, match=r"examples\.hotel\.billing"):
        services.delete_subscription(EDITOR, "booking.created", "billing", "billing", "x")


def test_an_owner_may_be_taken_away_and_given(billing: Subscription) -> None:
    with pytest.raises(Forbidden):
        services.change_subscription(EDITOR, "booking.created", "billing", {"owner": "", "concurrency": 2}, "x")
    assert Subscription.objects.get().concurrency == 4
    with pytest.raises(BadInput) as refused:
        services.change_subscription(GOVERNOR, "booking.created", "billing", {"owner": ""})
    assert refused.value.field == "reason"
    services.change_subscription(GOVERNOR, "booking.created", "billing", {"owner": ""}, "left the house")
    assert Subscription.objects.get().team is None
    services.change_subscription(SYSTEM, "booking.created", "billing", {"owner": "Reservations"}, "taken over")
    assert Subscription.objects.get().team is not None


def test_the_audit_log_keeps_no_key_of_a_webhooks_address(topic: Topic) -> None:
    key = "Zk3v9Qp1"
    services.create_subscription(GOVERNOR, replace(HOOK, webhook_url=f"https://93.184.216.34/in/{key}?sig={key}"))
    services.change_subscription(
        GOVERNOR, "booking.created", "partner", {"webhook_url": f"https://93.184.216.34/in/{key}/2?sig={key}"}
    )
    services.delete_subscription(GOVERNOR, "booking.created", "partner", "partner", "gone")
    entries = list(AuditEntry.objects.filter(action__startswith="subscription."))
    assert len(entries) == 3
    assert key not in str([(entry.before, entry.after) for entry in entries])
    changed = entries[1]
    assert changed.before["webhook_url"] != changed.after["webhook_url"]
    assert changed.after["webhook_url"].startswith("https://93.184.216.34/in/…/… (address ")
