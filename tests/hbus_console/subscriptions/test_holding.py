"""What holds the messages that wait for a subscription, in words."""

from __future__ import annotations

from typing import Any

import pytest

from engine.bus.subjects import subscription_subject
from hbus_console.subscriptions import holding as holding_of
from hbus_console.subscriptions.holding import holding
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.breaker import open_breakers, probes
from hbus_console.topics.models import Topic

pytestmark = pytest.mark.django_db

PLACE = subscription_subject("booking.changed", "billing")


@pytest.fixture
def row(db: None, monkeypatch: pytest.MonkeyPatch) -> Subscription:
    monkeypatch.setattr(holding_of, "open_breakers", lambda pairs: {})
    topic = Topic.objects.create(name="booking.changed")
    return Subscription.objects.create(topic=topic, group="billing", handler_name="hotel.bill")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, None),
        ({"paused": True}, "because billing is paused"),
        ({"handler_name": ""}, "because billing has no handler"),
        ({"group": "other"}, "for billing, which is gone"),
    ],
)
def test_it_is_said_when_something_does(row: Subscription, values: dict[str, Any], said: str | None) -> None:
    Subscription.objects.update(**values)
    assert holding([PLACE]).get(PLACE) == said


def test_a_paused_topic_and_an_open_breaker_hold_too(row: Subscription, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding_of, "open_breakers", lambda pairs: dict.fromkeys(pairs, "open"))
    assert holding([PLACE]) == {PLACE: "behind the open breaker of billing"}
    Topic.objects.update(paused=True)
    assert holding([PLACE]) == {PLACE: "because booking.changed is paused"}
    assert holding([]) == {}


def test_while_the_store_is_away_nobody_is_told_that_no_breaker_holds_them(
    row: Subscription, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding_of, "open_breakers", lambda pairs: None)
    assert holding([PLACE]) == {PLACE: "while the store cannot be asked whether the breaker of billing is open"}
    Subscription.objects.update(breaker_failures=0)
    assert holding([PLACE]) == {}


def test_whether_a_breaker_is_open_is_not_known_while_the_store_is_away(
    row: Subscription, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "obstacle", lambda: "it does not answer")
    assert open_breakers([("booking.changed", "billing")]) is None
