"""Who is calling the API: a token in the Authorization header, or the console's own session."""

from __future__ import annotations

from typing import Any, cast

from rest_framework import authentication, exceptions, permissions
from rest_framework.request import Request

from hbus_console.access.permissions import Forbidden
from hbus_console.access.web import actor
from hbus_console.accounts import services
from hbus_console.accounts.actors import actor_of_token
from hbus_console.accounts.models import ApiToken, User


class TokenAuthentication(authentication.BaseAuthentication):
    """``Authorization: Bearer hbus_…``. A malformed, unknown, expired or revoked token is refused with 401."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, raw = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = services.authenticate_token(raw.strip())
        if token is None:
            raise exceptions.AuthenticationFailed(
                "The token is unknown, expired or revoked. Make a new one under Access."
            )
        # The session that a browser may have sent beside it counts for nothing.
        request._request.actor = actor_of_token(token)  # type: ignore[attr-defined]
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class ConsoleSessionAuthentication(authentication.SessionAuthentication):
    """The browser's session, with Django's CSRF check on every change."""

    def enforce_csrf(self, request: Request) -> None:
        # Django's own request leaves a JSON body unread; this one would parse it before anybody is known, and what
        # comes after could not read it again.
        super().enforce_csrf(cast("Request", request._request))

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class SignedIn(permissions.IsAuthenticated):
    """Somebody is calling, and not with a session whose password somebody else knows: that raises ``Forbidden``.

    A token whose maker must change the password is none that lives: the reset of a password ends them all.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if not super().has_permission(request, view):
            return False
        who = actor(request._request)
        if who.must_change_password:
            raise Forbidden(
                f"{who.name} signed in with a password that somebody else knows.",
                remedy="Change the password in the console first.",
            )
        return True
