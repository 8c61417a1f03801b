"""Who sends a request, told from its head alone: for what is decided before Django reads the body."""

from __future__ import annotations

from http import HTTPStatus
from importlib import import_module
from io import BytesIO
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import auth
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, close_old_connections

from hbus_console.access.acts import Act, Role
from hbus_console.access.permissions import ANONYMOUS, Actor, visible_scopes
from hbus_console.accounts.actors import actor_of, actor_of_token
from hbus_console.accounts.tokens import authenticate_token

#: Whoever may only look has nothing long to send.
_SEND = Act("send", Role.OPERATOR, "send more than a form holds")


def why_not_at_length(scope: dict[str, Any]) -> HTTPStatus | None:
    """With what a long body is refused, unread: 401 of nobody we know, 403 of who may do nothing but look anywhere.

    ``None``: it is read, and whoever it is for decides. So it is while the database does not answer, which the answer
    will say.
    """
    try:
        who = _caller(ASGIRequest(scope, BytesIO()))
    except DatabaseError:
        return None
    if not who.is_authenticated:
        return HTTPStatus.UNAUTHORIZED
    return None if visible_scopes(who, _SEND) and not who.must_change_password else HTTPStatus.FORBIDDEN


async def refusal(scope: dict[str, Any]) -> HTTPStatus | None:
    """:func:`why_not_at_length`, beside the loop."""
    return await sync_to_async(_asked)(scope)


def _asked(scope: dict[str, Any]) -> HTTPStatus | None:
    # Its thread belongs to no request, at whose end Django would close what the database has given up.
    close_old_connections()
    try:
        return why_not_at_length(scope)
    finally:
        close_old_connections()


def _caller(request: ASGIRequest) -> Actor:
    scheme, _, raw = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        token = authenticate_token(raw.strip())
        return actor_of_token(token) if token is not None else ANONYMOUS
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not key:
        return ANONYMOUS
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    return actor_of(auth.get_user(request))
