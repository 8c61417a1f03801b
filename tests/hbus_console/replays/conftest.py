"""A topic with forty bookings in the real store, two subscriptions, a second topic, and people."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pytest_django import Settings

from engine.bus import message as envelope
from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem, Receipt
from engine.core.clock import ManualClock
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.operations import services
from hbus_console.operations.models import Operation
from hbus_console.operations.runner import OperationRunner
from hbus_console.outbox.relay import OutboxRelay
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions.models import Subscription
from hbus_console.teams.models import Team
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store

TOPIC = "booking.created"
MakeUser = Callable[..., User]


@pytest.fixture
def topic(settings: Settings, prefix: str, transactional_db: None) -> Iterator[Topic]:
    store.close()
    settings.HBUS_PREFIX = prefix
    catalog.changed()
    team = Team.objects.create(name="Bookings", contact="bookings@hotel.example")
    made = Topic.objects.create(name=TOPIC, team=team, masked_fields=["guest"])
    Topic.objects.create(name="booking.again", team=team, masked_fields=["guest"])
    for group in ("availability", "billing"):
        Subscription.objects.create(topic=made, group=group, team=team)
        bus.admin().create_group(TOPIC, group)
    bus.admin().create_topic("booking.again")
    yield made
    store.close()


@pytest.fixture
def published(topic: Topic) -> list[Receipt]:
    items = [
        BatchItem(
            {"n": n, "hotel": "Resort" if n % 4 == 0 else "City", "guest": f"g{n}"}, PublishOptions(key=f"H-{n % 2}")
        )
        for n in range(40)
    ]
    answers = shared_producer().publish_batch(TOPIC, items)
    return [answer for answer in answers if isinstance(answer, Receipt)]


@pytest.fixture
def make_user() -> MakeUser:
    def make(role: str = "editor", scope: str = "*", name: str = "edith") -> User:
        user = User.objects.create_user(name, password="x")
        user.grants.create(role=role, scope=scope)
        return user

    return make


@pytest.fixture
def editor(topic: Topic, make_user: MakeUser) -> Actor:
    return actor_of(make_user())


@pytest.fixture
def admin(topic: Topic, make_user: MakeUser) -> Actor:
    return actor_of(make_user("admin", name="ada"))


def replay(actor: Actor, **spec: str) -> Operation:
    """Start a replay, run it to its end, and let the outbox publish."""
    given = {"topic": TOPIC, **{name.rstrip("_"): value for name, value in spec.items()}}
    operation = services.start(actor, "replay", given, reason="lost last night").operation
    run(operation)
    return operation


def run(operation: Operation) -> None:
    """Advance it to its end and publish what it left in the outbox."""
    runner = OperationRunner()
    for _ in range(50):
        runner.tick()
        operation.refresh_from_db()
        if not operation.active:
            break
    OutboxRelay(shared_producer, store.client, clock=ManualClock()).tick()


def stored(topic: str = TOPIC) -> list[Message]:
    """What lies in a topic, oldest first."""
    return [envelope.decode(entry.body) for entry in bus.admin().browse(topic, limit=5_000).entries]


def copies(topic: str = TOPIC) -> list[Message]:
    return [message for message in stored(topic) if message.hbusreplay == "replay"]
