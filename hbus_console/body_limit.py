"""No request sends more than the console is willing to read, whoever sends it and wherever to."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.conf import settings

from hbus_console.access.problem_details import problem_details

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
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
            await _refuse(send, refused.status)


def _announced(scope: dict[str, Any]) -> int:
    """The length that the sender gives; 0 when they give none."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0


async def _refuse(send: Send, status: HTTPStatus) -> None:
    title, detail, remedy = _SAID[status]
    headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
    if status is HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    body = json.dumps(problem_details(status.value, title, detail, remedy=remedy)).encode()
    await send({"type": "http.response.body", "body": body})
