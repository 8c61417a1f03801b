"""Actors, a team, a topic, and a store whose keys belong to one test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, ScopedRole
from hbus_console.accounts import services as accounts
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.tokens import create_token
from hbus_console.audit.models import AuditEntry
from hbus_console.teams import services as teams
from hbus_console.teams.models import Team
from hbus_console.teams.services import TeamDraft
from hbus_console.topics import services as topics
from hbus_console.topics.models import Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import store


def actor(role: Role, scope: str = "*") -> Actor:
    return Actor(name=f"a-{role.value}", user_id=1, grants=(ScopedRole(role, scope),))


VIEWER, OPERATOR, EDITOR, GOVERNOR, ADMIN = (actor(role) for role in Role)


@pytest.fixture
def own_keys(settings: Settings, prefix: str) -> Iterator[None]:
    """The process's wiring under a prefix nobody else uses."""
    store.close()
    settings.HBUS_PREFIX = prefix
    yield
    store.close()


@pytest.fixture
def team(db: None) -> Team:
    return teams.create_team(SYSTEM, TeamDraft("Reservations", "#reservations"))


@pytest.fixture
def topic(own_keys: None, team: Team, committed: Callable[..., None]) -> Topic:
    committed(lambda: topics.create_topic(SYSTEM, TopicDraft(name="booking.created", owner="Reservations")))
    return Topic.objects.get(name="booking.created")


@pytest.fixture
def committed(django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> Callable[..., None]:
    """Run a function and then what it left for after the commit."""

    def run(act: Callable[[], object]) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            act()

    return run


@pytest.fixture
def told(db: None) -> Callable[[], list[str]]:
    """The actions in the audit log since the fixture was asked for, oldest first."""
    begin = AuditEntry.objects.count()
    return lambda: list(AuditEntry.objects.order_by("seq").values_list("action", flat=True)[begin:])


Caller = Callable[..., Any]


@pytest.fixture
def calling(own_keys: None, db: None) -> Callable[..., Caller]:
    """Makes a program with a token of a role and scope: ``call(method, path, body, **headers)`` on the API."""

    def make(role: Role = Role.ADMIN, scope: str = "*") -> Caller:
        person = accounts.create_user(SYSTEM, f"p-{role.value}-{len(scope)}", [ScopedRole(role, scope)]).user
        token = create_token(actor_of(person), "test", role, scope, datetime.now(UTC) + timedelta(days=1)).raw
        client = Client()

        def call(method: str, path: str, body: Any = None, **headers: str) -> Any:
            return client.generic(
                method,
                f"/api/v1/{path}",
                b"" if body is None else json.dumps(body).encode(),
                content_type="application/json",
                headers={"Authorization": f"Bearer {token}", **headers},
            )

        return call

    return make


@pytest.fixture
def signed_in(own_keys: None, db: None) -> Callable[..., Client]:
    """Makes a browser session of a person with a role and scope."""

    def make(role: Role = Role.ADMIN, scope: str = "*") -> Client:
        person = accounts.create_user(SYSTEM, f"s-{role.value}-{len(scope)}", [ScopedRole(role, scope)]).user
        person.must_change_password = False
        person.save()
        client = Client()
        client.force_login(person)
        return client

    return make
