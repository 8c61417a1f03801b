"""No request sends more than the console is willing to read, whoever sends it and wherever to."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from hbus_console.access.problem_details import CONTENT_TYPE, problem_details

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
#: What answers a request of Django.
Answer = Callable[[HttpRequest], HttpResponse]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]
#: With what more than anybody may send is refused of whoever sends that request; ``None``: it is taken.
Refusal = Callable[[dict[str, Any]], Awaitable[HTTPStatus | None]]

_SAID = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("Too large", "The request body is too large.", "Send smaller batches."),
    HTTPStatus.UNAUTHORIZED: ("Sign in first", "So long a body is taken of nobody unknown.", "Send a living token."),
    HTTPStatus.FORBIDDEN: ("Not allowed", "So long a body is taken of nobody who may only look.", "Ask for a role."),
}


class _Refused(Exception):
    """The body is not read any further."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


class BodyLimit:
    """Answers 413 to a body of more than ``DATA_UPLOAD_MAX_MEMORY_SIZE`` bytes, and keeps none of what is too much.

    Of a body of more than ``BODY_OF_ANYBODY`` bytes ``refusal`` is asked who sends it before more of it is read, so
    that no number of strangers fills memory and disk. Django's handler takes a body whole before anything asks, so the
    limit stands before it.
    """

    def __init__(self, app: App, refusal: Refusal) -> None:
        self._app = app
        self._refusal = refusal

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        taken, known = 0, False

        async def check(length: int) -> None:
            nonlocal known
            if length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
                raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            if length > settings.BODY_OF_ANYBODY and not known:
                if (status := await self._refusal(scope)) is not None:
                    raise _Refused(status)
                known = True

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            await check(taken)
            return message

        try:
            await check(_announced(scope))
            await self._app(scope, counted, send)
        except _Refused as refused:
            await _refuse(scope, send, refused.status)


def _announced(scope: dict[str, Any]) -> int:
    """The length that the sender gives; 0 when they give none."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0


async def _refuse(scope: dict[str, Any], send: Send, status: HTTPStatus) -> None:
    answer = _answer(status)(ASGIRequest(scope, io.BytesIO()))
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.items()]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})


@cache
def _answer(status: HTTPStatus) -> Answer:
    """The refusal, with what the console says on any of its answers: who may keep it, and what may show it."""
    answer: Answer = partial(_refusal, status)
    for name in reversed(settings.HEADER_MIDDLEWARE):
        answer = import_string(name)(answer)
    return answer


def _refusal(status: HTTPStatus, request: HttpRequest) -> HttpResponse:
    title, detail, remedy = _SAID[status]
    body = json.dumps(problem_details(status.value, title, detail, remedy=remedy))
    answer = HttpResponse(body, status=status.value, content_type=CONTENT_TYPE, headers={"Connection": "close"})
    if status is HTTPStatus.UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer
