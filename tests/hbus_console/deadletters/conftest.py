"""An owned topic with a subscription, people, and letters that died on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from engine.bus.conformance.running import FactRecorder
from engine.bus.message import Message, encode
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, ScopedRole
from hbus_console.deadletters.models import DeadLetter
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams.models import Team
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.wiring import fact_log

NOW = datetime(2026, 11, 20, 14, 31, tzinfo=UTC)
MakeLetter = Callable[..., DeadLetter]
_numbers = itertools.count(1)


def person(role: str, scope: str = "*", name: str = "ops-lisbon") -> Actor:
    return Actor(name=name, user_id=1, grants=(ScopedRole(Role(role), scope),))


@pytest.fixture
def operator() -> Actor:
    return person("operator")


@pytest.fixture
def subscription(db: None) -> Subscription:
    team = Team.objects.create(name="Distribution", contact="#distribution")
    topic = Topic.objects.create(name="booking.changed", team=team)
    # Letters of these tests died at a fixed time, and their topic was there before.
    Topic.objects.update(created_at=NOW - timedelta(days=1))
    # The process's producer has a catalog of its own, which may remember another test's topics.
    catalog.changed()
    return Subscription.objects.create(topic=topic, group="partner-sync", team=team, handler_name="sync")


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> Iterator[FactRecorder]:
    """The process's facts, caught; and a catalog without a memory of other tests."""
    seen = FactRecorder()
    monkeypatch.setattr(fact_log, "emitter", lambda: seen)
    fresh = catalog.DjangoCatalog()
    monkeypatch.setattr(catalog, "shared", lambda: fresh)
    return seen  # type: ignore[return-value]


@pytest.fixture
def make_letter(subscription: Subscription) -> MakeLetter:
    """``make_letter(cause=…, topic=…, message={…})``: a letter that waits for a decision."""

    def make(message: dict[str, Any] | None = None, **more: Any) -> DeadLetter:
        number = next(_numbers)
        original = Message(
            **{
                "id": f"01K9LETTER{number:016d}",
                "source": "/hotels/reservations-api",
                "type": "booking.changed",
                "partitionkey": f"booking/{number}",
                "correlationid": f"req-{number}",
                "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                "data": msgspec.Raw(b'{"room":"DBL-SEA"}'),
                "extensions": {"tenant": "lisbon"},
                **(message or {}),
            }
        )
        died_at = more.pop("died_at", NOW + timedelta(seconds=number))
        values: dict[str, Any] = {
            "topic": "booking.changed",
            "subscription": "partner-sync",
            "message_id": original.id,
            "source": original.source,
            "position": f"{number}-0",
            "key": original.partitionkey,
            "correlation_id": original.correlationid,
            "body": encode(original),
            "cause": "UnknownRoomCode: …",
            "error": "UnknownRoomCode: 'DBL-SEA'",
            "fingerprint": "7c1f9a0000000000",
            "attempts": 5,
            "history": [],
            "first_failed_at": died_at - timedelta(seconds=35),
            "died_at": died_at,
            **more,
        }
        return DeadLetter.objects.create(**values)

    return make
