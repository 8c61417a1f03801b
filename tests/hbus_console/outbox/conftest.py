"""A topic whose store keys belong to one test, in a database whose commits are real."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pytest_django import Settings

from engine.bus import message as envelope
from engine.bus.message import Message
from hbus_console.teams.models import Team
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store


@pytest.fixture
def topic(settings: Settings, prefix: str, transactional_db: None) -> Iterator[Topic]:
    store.close()
    settings.HBUS_PREFIX = prefix
    catalog.changed()
    team = Team.objects.create(name="Finance", contact="finance@hotel.example")
    yield Topic.objects.create(name="invoice.drafted", team=team)
    store.close()


@pytest.fixture
def stored(topic: Topic) -> Callable[[], list[Message]]:
    """What lies in the topic, oldest first."""
    return lambda: [envelope.decode(entry.body) for entry in bus.admin().browse(topic.name, limit=5_000).entries]
