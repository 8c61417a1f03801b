"""A topic with forty bookings in the real store, a lake of the test's own, and people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pytest_django import Settings

from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.publishing.producer import shared_producer
from hbus_console.teams.models import Team
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
from hbus_console.wiring.lake import lake

TOPIC = "booking.created"
MakeUser = Callable[..., User]


@pytest.fixture
def topic(settings: Settings, prefix: str, transactional_db: None, tmp_path: Path) -> Iterator[Topic]:
    store.close()
    settings.HBUS_PREFIX = prefix
    settings.HBUS_LAKE = str(tmp_path / "lake")
    catalog.changed()
    team = Team.objects.create(name="Bookings", contact="bookings@hotel.example")
    made = Topic.objects.create(name=TOPIC, team=team)
    Topic.objects.create(name="payment.taken", team=team)
    for name in (TOPIC, "payment.taken"):
        bus.admin().create_topic(name)
    publish(40)
    yield made
    store.close()


def publish(number: int, topic: str = TOPIC) -> None:
    items = [BatchItem({"n": n, "guest": f"g{n}"}, PublishOptions(key=f"H-{n % 3}")) for n in range(number)]
    shared_producer().publish_batch(topic, items)


def kept(topic: str = TOPIC) -> list[str]:
    """The ids in the lake."""
    found: list[str] = []
    for path in lake().paths(lake().state().files_of(topic)):
        found += pq.read_table(path, columns=["id"])["id"].to_pylist()
    return found


@pytest.fixture
def make_user() -> MakeUser:
    def make(role: str = "governor", scope: str = "*", name: str = "gov") -> User:
        user = User.objects.create_user(name, password="x")
        user.grants.create(role=role, scope=scope)
        return user

    return make


@pytest.fixture
def governor(topic: Topic, make_user: MakeUser) -> Actor:
    return actor_of(make_user())
