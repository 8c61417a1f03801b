"""Puts the :class:`~hbus_console.access.permissions.Actor` of a session on the request."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth import HASH_SESSION_KEY
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject

from hbus_console.access.permissions import ANONYMOUS, Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User


class ActorMiddleware:
    """What :func:`hbus_console.access.web.actor` and :func:`~hbus_console.access.web.actor_now` read."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.actor = SimpleLazyObject(lambda: actor_of(request.user))  # type: ignore[attr-defined]
        request.actor_now = lambda: _today(request)  # type: ignore[attr-defined]
        return self._get_response(request)


def _today(request: HttpRequest) -> Actor:
    user = User.objects.filter(pk=request.user.pk or 0).first()
    return actor_of(user) if user is not None and _still_holds(request, user) else ANONYMOUS


def _still_holds(request: HttpRequest, user: User) -> bool:
    """Whether the session is one of those that a new password or a lock of the account has not ended."""
    known = str(request.session.get(HASH_SESSION_KEY, ""))
    valid = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(known, each) for each in valid)
