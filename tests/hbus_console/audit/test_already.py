"""A second person does what stands already: they are told so, and by whom, and not that it was done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from engine.bus.conformance.running import FactRecorder
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.accounts import services as accounts
from hbus_console.accounts.models import User
from hbus_console.alerts import services as alerts
from hbus_console.alerts.models import Alert
from hbus_console.audit.models import AuditEntry
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.teams.models import Team
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.wiring import fact_log
from tests.hbus_console.topics.conftest import EDITOR, committed, own_keys, signed_in, team, topic

__all__ = ["committed", "own_keys", "signed_in", "team", "topic"]

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys", "team")]

ONE = ("booking.created", "billing")


@pytest.fixture(autouse=True)
def billing(topic: Topic, committed: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_log, "emitter", FactRecorder)
    committed(lambda: subscriptions.create_subscription(EDITOR, SubscriptionDraft(*ONE, "Reservations")))


@pytest.mark.parametrize(
    ("address", "args", "first", "sent", "says"),
    [
        (
            "topics:pause",
            ONE[:1],
            lambda: topics.pause_topic(EDITOR, ONE[0], "maintenance"),
            {},
            "booking.created is paused already, since",
        ),
        (
            "topics:resume",
            ONE[:1],
            lambda: (topics.pause_topic(EDITOR, ONE[0], "x"), topics.resume_topic(EDITOR, ONE[0], "maintenance")),
            {},
            "booking.created is handed out already, since",
        ),
        (
            "subscriptions:pause",
            ONE,
            lambda: subscriptions.drain(EDITOR, *ONE, "maintenance"),
            {},
            "billing is paused already, since",
        ),
        (
            "subscriptions:drain",
            ONE,
            lambda: subscriptions.pause_subscription(EDITOR, *ONE, "maintenance"),
            {},
            "billing is paused already, since",
        ),
        ("subscriptions:resume", ONE, lambda: None, {}, "billing is handed messages already."),
        (
            "subscriptions:breaker",
            ONE,
            lambda: subscriptions.set_breaker(EDITOR, *ONE, "open", "maintenance"),
            {"act": "open"},
            "billing has its breaker open already, since",
        ),
        ("subscriptions:breaker", ONE, lambda: None, {"act": "close"}, "billing has its breaker closed already."),
    ],
)
def test_what_stands_already_is_told_with_who_and_why_and_not_as_done(
    signed_in: Callable[..., Client],
    committed: Callable[..., None],
    *,
    address: str,
    args: tuple[str, ...],
    first: Callable[[], object],
    sent: dict[str, str],
    says: str,
) -> None:
    client = signed_in(Role.OPERATOR)
    committed(first)
    entries = AuditEntry.objects.count()
    said = _said(client, reverse(address, args=args), {"reason": "second reason", **sent})
    assert said.startswith(f"Nothing was done, and your reason was not kept: {says}")
    if says.endswith("since"):
        assert said.endswith(f"by {EDITOR.name}: “maintenance”.")
    assert AuditEntry.objects.count() == entries


def test_an_alert_that_somebody_looks_at_and_an_account_that_is_shut(signed_in: Callable[..., Client]) -> None:
    alert = Alert.objects.create(
        rule_name="x", kind="parked", severity="high", state="firing", threshold=1, value=1, peak=1, began_ms=1,
        measured_ms=1, subject_kind="subscription", namespace=ONE[0], subject_name=ONE[1],
    )  # fmt: skip
    client = signed_in(Role.ADMIN)
    alerts.acknowledge(SYSTEM, alert.pk, "on it")
    said = _said(client, reverse("alerts:acknowledge", args=[alert.pk]), {"note": "me too"})
    assert "is looked at already, since" in said
    assert said.endswith(f"by {SYSTEM.name}: “on it”.")

    gone = User.objects.create(username="gone")
    accounts.deactivate_user(SYSTEM, gone, "has left")
    said = _said(client, reverse("accounts:user", args=["gone"]), {"act": "deactivate", "reason": "has left, I hear"})
    assert "gone is deactivated already, since" in said
    assert "“has left”" in said


def test_of_a_reason_that_nobody_gave_nothing_is_told(signed_in: Callable[..., Client]) -> None:
    """Found by a stranger: who gave none read that theirs was not kept."""
    client = signed_in(Role.OPERATOR)
    resume = reverse("topics:resume", args=ONE[:1])
    for given in ("", "  "):
        assert _said(client, resume, {"reason": given}) == "Nothing was done: booking.created is handed out already."
    assert _said(client, resume, {"reason": "over"}).startswith("Nothing was done, and your reason was not kept: ")


def test_what_is_done_is_told_as_done(signed_in: Callable[..., Client]) -> None:
    client = signed_in(Role.OPERATOR)
    assert _said(client, reverse("topics:pause", args=ONE[:1]), {"reason": "migration"}).startswith("Deliveries of")
    assert Topic.objects.get().pause_reason == "migration"
    assert Subscription.objects.count() == Team.objects.count() == 1


def _said(client: Client, path: str, sent: dict[str, str]) -> str:
    *_, message = get_messages(client.post(path, sent).wsgi_request)
    return str(message)
