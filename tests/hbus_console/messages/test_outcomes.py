"""What became of copies of messages, as far as the ledger and the dead letters tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from engine.bus.subjects import message_subject
from hbus_console.deadletters.models import DeadLetter
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.messages.outcomes import outcomes
from hbus_console.operations.outcomes import Fate, Made
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOW = datetime(2026, 11, 20, 14, 31, tzinfo=UTC)


@pytest.fixture(autouse=True)
def readers(db: None) -> None:
    topic = Topic.objects.create(name="booking.changed")
    for group in ("billing", "partner-sync"):
        Subscription.objects.create(topic=topic, group=group)
    Subscription.objects.update(created_at=NOW - timedelta(days=1))


def made(message_id: str = "copy", group: str = "billing", topic: str = "booking.changed") -> Made:
    facets = {"subscription": group} if group else {}
    return Made(message_subject(topic, message_id), NOW, NOW, facets)


def said(kind: str, group: str = "billing", message_id: str = "copy", topic: str = "booking.changed") -> None:
    LedgerEvent.objects.create(message_id=message_id, kind=kind, topic=topic, subscription=group, at_ms=1)


def outcome(one: Made) -> tuple[str, str]:
    (fate,) = outcomes([one])
    return fate.outcome, fate.detail


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ((), ("waiting", "")),
        (("retried",), ("retrying", "")),
        (("retried", "settled"), ("settled", "")),
        (("deduplicated",), ("settled", "")),
        (("retried", "dead"), ("dead", "")),
        (("expired",), ("unhandled", "expired before it was handled")),
        (("parked", "skipped"), ("unhandled", "skipped by a person")),
    ],
)
def test_it_follows_from_what_happened_in_its_subscription(kinds: tuple[str, ...], told: tuple[str, str]) -> None:
    for kind in kinds:
        said(kind)
    said("settled", group="partner-sync")
    said("settled", topic="elsewhere")
    assert outcome(made()) == told


def test_a_death_is_known_although_its_fact_was_lost() -> None:
    DeadLetter.objects.create(
        topic="booking.changed", subscription="billing", message_id="copy", source="/x", position="1-0", body=b"",
        cause="X", error="X", fingerprint="f", attempts=1, first_failed_at=NOW, died_at=NOW,
    )  # fmt: skip
    assert outcome(made()) == ("dead", "")


def test_for_a_whole_topic_it_is_decided_when_the_last_is_done() -> None:
    Subscription.objects.create(topic=Topic.objects.get(), group="late")
    said("dead", group="partner-sync")
    assert outcome(made(group="")) == ("waiting", "")
    said("settled")
    assert outcome(made(group="")) == ("dead", "")
    assert outcome(made(group="", topic="nobody.reads")) == ("unhandled", "nobody is subscribed to nobody.reads")


def test_what_cannot_be_known_is_said_to_be(settings: Settings) -> None:
    assert outcome(made(group="gone")) == ("unknown", "gone is no longer subscribed to booking.changed")
    settings.HBUS_LEDGER = False
    assert outcome(made()) == ("unknown", "the ledger keeps no messages here")


def test_what_a_full_ledger_has_let_go_unseen_cannot_be_known(settings: Settings) -> None:
    since_ms = round(NOW.timestamp() * 1000) + 60_000
    for number in range(3):
        LedgerMessage.objects.create(
            message_id=f"later{number}", topic="booking.changed", size=1, published_ms=since_ms + number
        )
    assert outcome(made()) == ("waiting", ""), "a young ledger has let nothing go"
    settings.LEDGER_MAX_MESSAGES = 3
    assert outcome(made()) == ("unknown", "the ledger no longer reaches back to it")
    watched = Made(made().subject, NOW, NOW + timedelta(minutes=2), made().facets)
    assert outcome(watched) == ("waiting", ""), "it was looked at since: it does wait"


def test_any_number_is_asked_for_together() -> None:
    for number in range(50):
        said("settled", message_id=f"m{number}")
    many = [made(f"m{number}") for number in range(50)]
    with CaptureQueriesContext(connections["default"]) as asked, CaptureQueriesContext(connections["ledger"]) as ledger:
        told = outcomes(many)
    assert (len(asked), len(ledger)) == (2, 3)
    assert told == [Fate(told[0].outcome)] * 50
