"""No request sends more than the console is willing to read, whoever sends it and wherever to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django.conf import settings

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

_ANSWER = (
    b'{"type": "urn:hbus:problem:too-large", "title": "Too large", "status": 413,'
    b' "detail": "The request body is too large.", "remedy": "Send smaller batches."}'
)


class _TooLarge(Exception):
    """The body has grown past the limit."""


class BodyLimit:
    """Answers 413 to a body of more than ``DATA_UPLOAD_MAX_MEMORY_SIZE`` bytes, and keeps none of what is too much.

    Django's handler takes a body whole before anything asks who sends it, so the limit stands before it.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if _announced(scope) > limit:
            await _refuse(send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > limit:
                raise _TooLarge
            return message

        try:
            await self._app(scope, counted, send)
        except _TooLarge:
            await _refuse(send)


def _announced(scope: dict[str, Any]) -> int:
    """The length that the sender gives; 0 when they give none."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() else 0


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": _ANSWER})
