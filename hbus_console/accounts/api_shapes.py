"""What the endpoints of users, roles and tokens take and give."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, ScopedRole, visible_scopes
from hbus_console.accounts.models import ApiToken, User
from hbus_console.accounts.tokens import is_live
from hbus_console.registry.acts import acts


class GrantBody(msgspec.Struct, forbid_unknown_fields=True):
    """One role in one scope."""

    role: Role
    scope: Annotated[str, Meta(description="*, booking.* or one exact name.")]


class UserBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new user."""

    username: str
    email: str = ""
    grants: list[GrantBody] = []


class UserChange(msgspec.Struct, forbid_unknown_fields=True):
    """What to change of a user; absent stays as it is. ``grants`` replaces all roles."""

    grants: list[GrantBody] | UnsetType = UNSET
    active: bool | UnsetType = UNSET
    reason: str = ""


class TokenBody(msgspec.Struct, forbid_unknown_fields=True):
    """A new token."""

    name: str
    role: Role
    scope: str
    expires_at: datetime


def grants_of(bodies: Iterable[GrantBody]) -> list[ScopedRole]:
    """As the services take them."""
    return [ScopedRole(body.role, body.scope) for body in bodies]


def me(actor: Actor) -> dict[str, Any]:
    """Who acts, and where they may do what."""
    allowed = {act.name: list(visible_scopes(actor, act)) for act in acts().values()}
    return {
        "name": actor.name,
        "kind": actor.kind,
        "grants": [_grant(grant) for grant in actor.grants],
        "limit": _grant(actor.limit) if actor.limit else None,
        "actions": {action: scopes for action, scopes in allowed.items() if scopes},
    }


def user(row: User) -> dict[str, Any]:
    """A user with their roles."""
    return {
        "username": row.username,
        "email": row.email,
        "active": row.is_active,
        "must_change_password": row.must_change_password,
        "last_login": row.last_login,
        "grants": [{"role": grant.role, "scope": grant.scope} for grant in row.grants.all()],
    }


def token(row: ApiToken) -> dict[str, Any]:
    """A token; never its secret."""
    return {
        "prefix": row.prefix,
        "name": row.name,
        "user": row.user.username,
        "role": row.role,
        "scope": row.scope,
        "live": is_live(row, datetime.now(UTC)) and row.user.is_active,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": row.last_used_at,
        "revoked_at": row.revoked_at,
    }


def _grant(grant: ScopedRole) -> dict[str, str]:
    return {"role": grant.role.value, "scope": grant.scope}


# --- the same for the OpenAPI document

_ROLE = {"enum": [role.value for role in Role]}
GRANT = {
    "type": "object",
    "required": ["role", "scope"],
    "properties": {"role": _ROLE, "scope": {"type": "string", "description": "*, booking.* or one exact name."}},
}
_GRANTS = {"type": "array", "items": GRANT}
_TIME = {"type": "string", "format": "date-time"}
_TIME_OR_NULL = {"type": ["string", "null"], "format": "date-time"}
_TEXT = {"type": "string"}
USER = {
    "type": "object",
    "properties": {
        "username": _TEXT,
        "email": _TEXT,
        "active": {"type": "boolean"},
        "must_change_password": {"type": "boolean"},
        "last_login": _TIME_OR_NULL,
        "grants": _GRANTS,
    },
}
USER_MADE = {**USER, "properties": {**USER["properties"], "password": {**_TEXT, "description": "Shown this once."}}}  # type: ignore[dict-item]
PASSWORD = {"type": "object", "properties": {"password": {**_TEXT, "description": "Shown this once."}}}
TOKEN = {
    "type": "object",
    "properties": {
        "prefix": _TEXT,
        "name": _TEXT,
        "user": _TEXT,
        "role": _ROLE,
        "scope": _TEXT,
        "live": {"type": "boolean"},
        "created_at": _TIME,
        "expires_at": _TIME,
        "last_used_at": _TIME_OR_NULL,
        "revoked_at": _TIME_OR_NULL,
    },
}
TOKEN_MADE = {**TOKEN, "properties": {**TOKEN["properties"], "token": {**_TEXT, "description": "Shown this once."}}}  # type: ignore[dict-item]
ME = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "kind": {"enum": ["user", "token"]},
        "grants": _GRANTS,
        "limit": {**GRANT, "type": ["object", "null"]},
        "actions": {"type": "object", "additionalProperties": {"type": "array", "items": _TEXT}},
    },
}
