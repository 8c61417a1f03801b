"""Puts the :class:`~hbus_console.access.permissions.Actor` of a session on the request."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of


class ActorMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.actor = SimpleLazyObject(lambda: actor_of(request.user))  # type: ignore[attr-defined]
        return self._get_response(request)


def actor(request: HttpRequest) -> Actor:
    """The typed way to read it."""
    found: Actor = request.actor  # type: ignore[attr-defined]
    return found
