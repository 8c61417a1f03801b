"""A topic in a store whose keys belong to one test, and a file to import into it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from pytest_django import Settings

from hbus_console.access.permissions import SYSTEM
from hbus_console.imports.mapping import Mapping
from hbus_console.imports.rows import fingerprint
from hbus_console.imports.services import ImportReport, ImportRequest, run_import
from hbus_console.publishing.producer import shared_producer
from hbus_console.schemas.models import SchemaVersion
from hbus_console.teams.models import Team
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store

SCHEMA = {"type": "object", "required": ["room"], "properties": {"nights": {"type": "integer", "minimum": 0}}}


@pytest.fixture
def topic(settings: Settings, prefix: str, db: None) -> Iterator[str]:
    store.close()
    settings.HBUS_PREFIX = prefix
    team = Team.objects.create(name="Reservations", contact="#reservations")
    row = Topic.objects.create(name="booking.created", team=team)
    SchemaVersion.objects.create(topic=row, version=1, body=SCHEMA, created_by="test")
    yield row.name
    store.close()


@pytest.fixture
def stored(topic: str) -> Callable[[], list[msgspec.Raw]]:
    """The envelopes that lie in the topic, oldest first."""
    return lambda: [msgspec.json.decode(entry.body) for entry in bus.admin().browse(topic, limit=1000).entries]


def request(file: Path, topic: str, **changes: object) -> ImportRequest:
    mapping = Mapping(topic=topic, casts={"nights": "integer"}, nulls=["NULL"])
    asked = ImportRequest(
        file=file, fingerprint=fingerprint(file), mapping=mapping, rejects=file.with_name("rejects.jsonl"), batch=2
    )
    return msgspec.structs.replace(asked, **changes)


def imported(asked: ImportRequest, **more: object) -> ImportReport:
    more.setdefault("stop", threading.Event())
    return run_import(SYSTEM, asked, shared_producer(), **more)  # type: ignore[arg-type]
