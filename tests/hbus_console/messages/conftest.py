"""An installation under keys nobody else uses, with owned topics; and people of every kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from engine.bus.options import PublishOptions
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, ScopedRole
from hbus_console.accounts import services as accounts
from hbus_console.accounts.models import User
from hbus_console.evidence.collector import FactCollector
from hbus_console.evidence.fact_stream import FactReader
from hbus_console.messages.models import LedgerEvent, LedgerMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.teams import services as teams
from hbus_console.teams.services import TeamDraft
from hbus_console.topics import services as topics
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import store

TOPIC = "booking.changed"
AT = 1_790_000_000_000
BOOKING = {"booking": 48213, "room": {"code": "DBL-SEA"}, "guest": {"name": "Ana Lima"}, "adr": 117.3, "tags": ["sea"]}


def person(role: str, scope: str = "*", name: str = "ops-lisbon") -> Actor:
    return Actor(name=name, user_id=1, grants=(ScopedRole(Role(role), scope),))


@pytest.fixture
def installation(settings: Settings, prefix: str, db: None, django_capture_on_commit_callbacks: Any) -> Iterator[None]:
    """Wiring on the real store, one masked topic with two subscriptions, one plain topic without any."""
    store.close()
    settings.HBUS_PREFIX = prefix
    # The store is brought in line after each commit, which a test's own transaction never reaches.
    with django_capture_on_commit_callbacks(execute=True):
        teams.create_team(SYSTEM, TeamDraft("Reservations", "#reservations"))
        topics.create_topic(
            SYSTEM,
            TopicDraft(name=TOPIC, owner="Reservations", classification="personal", masked_fields=["guest.name"]),
        )
        topics.create_topic(SYSTEM, TopicDraft(name="stay.completed", owner="Reservations"))
        for group in ("billing", "partner-sync"):
            subscriptions.create_subscription(SYSTEM, SubscriptionDraft(topic=TOPIC, group=group, owner="Reservations"))
    yield
    store.close()


@pytest.fixture
def book(installation: None, settings: Settings) -> Callable[[], None]:
    """Flushes this process's facts and books them, as the keeper would."""

    def run() -> None:
        store.close()
        FactCollector(FactReader(store.client(), settings.HBUS_PREFIX)).tick()

    return run


@pytest.fixture
def sign_in(db: None) -> Callable[..., Client]:
    """``sign_in("operator", "booking.*")``: a browser of such a person."""

    def make(role: str = "admin", scope: str = "*") -> Client:
        client = Client()
        client.force_login(account(role, scope))
        return client

    return make


def account(role: str, scope: str = "*") -> User:
    name = f"{role}-{scope.strip('.*') or 'all'}"
    found = User.objects.filter(username=name).first()
    if found is None:
        found = accounts.create_user(SYSTEM, name, [ScopedRole(Role(role), scope)]).user
        User.objects.filter(pk=found.pk).update(must_change_password=False)
        found.refresh_from_db()
    return found


def publish(payload: Any = None, topic: str = TOPIC, **options: Any) -> str:
    body = BOOKING if payload is None else payload
    return shared_producer().publish(topic, body, PublishOptions(**options)).message_id


def message(message_id: str, published_ms: int = AT, **more: Any) -> LedgerMessage:
    values = {"topic": TOPIC, "type": TOPIC, "source": "/hotels/reservations-api", "size": 1, "position": "1-0", **more}
    return LedgerMessage.objects.create(message_id=message_id, published_ms=published_ms, **values)


def event(message_id: str, kind: str, after_ms: int, subscription: str = "billing", **more: Any) -> LedgerEvent:
    values = {"topic": TOPIC, "subscription": subscription, "at_ms": AT + after_ms, **more}
    return LedgerEvent.objects.create(message_id=message_id, kind=kind, **values)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """For what real threads do; fails the test when they do not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
