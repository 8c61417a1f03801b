"""The stream of live figures."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from http import HTTPStatus

from asgiref.sync import sync_to_async
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_GET

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, visible_scopes
from hbus_console.access.web import actor, actor_now, console_view
from hbus_console.ui.changes import Scopes
from hbus_console.ui.live import Hub, TooManyStreams, hub

_WAIT_S = 30


@require_GET
@console_view(VIEW, resource=SOMEWHERE, stream=True)
async def live(request: HttpRequest) -> HttpResponseBase:
    """Server-sent events for the signed-in person, with what changed since ``?since=`` (epoch milliseconds).

    429 beyond the streams one may hold.
    """
    who = actor(request)
    scopes, person = await sync_to_async(lambda: (visible_scopes(who), who.user_id or 0))()
    feed = hub()
    if feed.full(person):
        return HttpResponse(status=HTTPStatus.TOO_MANY_REQUESTS, headers={"Retry-After": str(_WAIT_S)})
    response = StreamingHttpResponse(
        _events(feed, request, person, scopes), content_type="text/event-stream; charset=utf-8"
    )
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


async def _events(feed: Hub, request: HttpRequest, person: int, scopes: Scopes) -> AsyncGenerator[str]:
    session: SessionBase = request.session

    async def still_allowed() -> bool:
        return await sync_to_async(_still)(request, session.session_key or "", scopes)

    last_id = request.headers.get("Last-Event-ID") or request.GET.get("since", "")
    # Several may have been let in at once: one too many ends at once, and what asks again is refused.
    with suppress(TooManyStreams), feed.seat(person):
        async with aclosing(feed.stream(scopes, last_id, still_allowed)) as texts:
            async for text in texts:
                yield text


def _still(request: HttpRequest, key: str, scopes: Scopes) -> bool:
    """Whether the session lives and its owner may still see exactly the same."""
    if not request.session.exists(key):
        return False
    who = actor_now(request)
    return not who.must_change_password and visible_scopes(who) == scopes
