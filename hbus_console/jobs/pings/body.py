"""Bodies of pings at the door of the web role: the first part goes on, and the rest is read past or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.conf import settings

from hbus_console.body_limit import App, Message, Receive, Send
from hbus_console.jobs.pings.code import PATH
from hbus_console.jobs.pings.ping import MOST_BODY

#: One byte more than is kept tells that there was more.
_HANDED_ON = MOST_BODY + 1


class PingBodies:
    """Hands a ping on with the first part of its body, and everything else to ``others``.

    A ping counts however much is sent along with it, so none is refused for its length. What is too much is kept
    nowhere. Of who knows a code it is read to its end before the answer goes out, for most clients take an answer that
    comes earlier for an error; up to ``DATA_UPLOAD_MAX_MEMORY_SIZE`` bytes, as of any body.
    """

    def __init__(self, console: App, others: App) -> None:
        self._console = console
        self._others = others

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(f"/{PATH}/"):
            await self._others(scope, receive, send)
            return
        cut = _CutBody(receive)

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == HTTPStatus.OK:
                await cut.passed.wait()
            await send(message)

        await self._console(scope, cut, answered)


class _CutBody:
    """Called by the application for what is received."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._handed_on = False
        #: Bytes that came.
        self._taken = 0
        #: Set once the answer need wait for no more of it.
        self.passed = asyncio.Event()

    async def __call__(self) -> Message:
        while True:
            if self._taken > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
                # No more of it is read: who called is cancelled once the answer is out.
                await asyncio.Event().wait()
            message = await self._receive()
            if message["type"] != "http.request":
                self.passed.set()
                return message
            part = self._first_of(message)
            if not self._handed_on:
                more = bool(message.get("more_body")) and self._taken < _HANDED_ON
                self._handed_on = not more
                return {**message, "body": part, "more_body": more}

    def _first_of(self, message: Mapping[str, Any]) -> bytes:
        body: bytes = message.get("body", b"")
        room = max(0, _HANDED_ON - self._taken)
        self._taken += len(body)
        if not message.get("more_body") or self._taken > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            self.passed.set()
        return body[:room]
