"""People, signed-in browsers and rows that pages are made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.deadletters.models import DeadLetter
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic
from tests.hbus_console.accounts.conftest import MakeUser, admin, admin_actor, make_user

__all__ = ["admin", "admin_actor", "make_user"]


@pytest.fixture
def browse() -> Callable[[User], Client]:
    """A client that is signed in as somebody."""

    def sign_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def page(admin: User, browse: Callable[[User], Client]) -> Client:
    """A client signed in as an admin of everything."""
    return browse(admin)


@pytest.fixture
def viewer(make_user: MakeUser) -> User:
    """May look at booking.* and nothing else."""
    return make_user("vera", "viewer", "booking.*")


@pytest.fixture
def viewer_actor(viewer: User) -> Actor:
    return actor_of(viewer)


@pytest.fixture
def now_ms() -> int:
    return time.time_ns() // 1_000_000


def topic(name: str, team: str | None = "Reservations", **fields: object) -> Topic:
    owner = Team.objects.get_or_create(name=team, defaults={"contact": "#x"})[0] if team else None
    return Topic.objects.create(name=name, team=owner, **fields)


def subscription(about: Topic, group: str, team: str | None = "Distribution", **fields: object) -> Subscription:
    owner = Team.objects.get_or_create(name=team, defaults={"contact": "#x"})[0] if team else None
    return Subscription.objects.create(topic=about, group=group, team=owner, **fields)


def dead_letters(count: int, topic: str, group: str = "partner-sync", fingerprint: str = "7c1f9a") -> None:
    moment = datetime.now(UTC)
    DeadLetter.objects.bulk_create(
        DeadLetter(
            topic=topic,
            subscription=group,
            message_id=f"{fingerprint}-{number}",
            source="/tests",
            position=f"{number}-0",
            body=b"{}",
            cause="UnknownRoomCode: DBL-SEA",
            error="UnknownRoomCode: DBL-SEA",
            fingerprint=fingerprint,
            attempts=5,
            first_failed_at=moment,
            died_at=moment + timedelta(seconds=number),
        )
        for number in range(count)
    )
