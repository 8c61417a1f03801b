"""Programs with tokens of different strength, calling a real installation's API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, ScopedRole
from hbus_console.accounts import services as accounts
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.tokens import create_token
from hbus_console.teams import services as teams
from hbus_console.teams.services import TeamDraft
from hbus_console.topics import services as topics
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import store

Caller = Callable[..., Any]
TOPIC = "booking.created"


@pytest.fixture
def installation(settings: Settings, prefix: str, transactional_db: None) -> Iterator[None]:
    """Wiring under keys nobody else uses, with one owned topic."""
    store.close()
    settings.HBUS_PREFIX = prefix
    teams.create_team(SYSTEM, TeamDraft("Reservations", "#reservations"))
    topics.create_topic(SYSTEM, TopicDraft(name=TOPIC, owner="Reservations"))
    yield
    store.close()


@pytest.fixture
def program(installation: None) -> Callable[..., Caller]:
    """Makes a caller with a token of the given role and scope: ``call(method, path, body, **headers)``."""

    def make(role: Role = Role.OPERATOR, scope: str = "*") -> Caller:
        person = accounts.create_user(SYSTEM, f"{role.value}-{len(scope)}", [ScopedRole(role, scope)]).user
        token = create_token(actor_of(person), "test", role, scope, datetime.now(UTC) + timedelta(days=1)).raw
        client = Client()

        def call(method: str, path: str, body: Any = None, **headers: str) -> Any:
            content_type = headers.pop("content_type", "application/json")
            return client.generic(
                method.upper(),
                f"/api/v1/{path}",
                b"" if body is None else (body if isinstance(body, bytes) else _json(body)),
                content_type=content_type,
                headers={"Authorization": f"Bearer {token}", **headers},
            )

        return call

    return make


def _json(body: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(body)
