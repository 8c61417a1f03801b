"""People of every role, made through the services like real ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor, ScopedRole
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User

PASSWORD = "four blue herons 9"
MakeUser = Callable[..., User]


@pytest.fixture
def make_user(db: None) -> MakeUser:
    """``make_user("anna", "editor", "booking.*")``; signs in with :data:`PASSWORD`."""

    def make(username: str, role: str = "viewer", scope: str = "*") -> User:
        new = services.create_user(SYSTEM, username, [ScopedRole(Role(role), scope)], password=PASSWORD)
        new.user.must_change_password = False
        new.user.save()
        return new.user

    return make


@pytest.fixture
def admin(make_user: MakeUser) -> User:
    return make_user("root", "admin")


@pytest.fixture
def admin_actor(admin: User) -> Actor:
    return actor_of(admin)


def later(days: float = 30) -> datetime:
    """A moment for a token to end."""
    return datetime.now(UTC) + timedelta(days=days)
