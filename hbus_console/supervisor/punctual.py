"""A connection to the web role that comes to the point: who drips a request holds it for a bounded time only."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from django.conf import settings
from uvicorn.protocols.http.h11_impl import H11Protocol

_ANSWER = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class PunctualProtocol(H11Protocol):
    """Closes a connection whose request's head is not there after ``REQUEST_HEAD_S`` seconds, counted from when it was
    opened or the last answer ended, or its body after ``REQUEST_BODY_S`` more.

    Whoever has sent a part of a request and no more is told 408. The server alone would wait for ever. An answer may
    take as long as it takes.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._patience: asyncio.TimerHandle | None = None
        #: What is awaited: whose request, and which part of it.
        self._awaited: tuple[object, object] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._keep_pace()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._keep_pace()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._keep_pace()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def _keep_pace(self) -> None:
        """Begin to wait for whatever part of a request comes next; a part of that part changes nothing."""
        awaited = (self.cycle, self.conn.their_state)
        if awaited == self._awaited:
            return
        self._wait_no_more()
        self._awaited = awaited
        seconds = {h11.IDLE: settings.REQUEST_HEAD_S, h11.SEND_BODY: settings.REQUEST_BODY_S}.get(awaited[1])
        if seconds is not None and not self.transport.is_closing():
            self._patience = self.loop.call_later(seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        begun = self.conn.trailing_data[0] or self.conn.their_state is h11.SEND_BODY
        if begun and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_ANSWER)
        if self.transport.get_write_buffer_size():
            # Who does not even read would hold a connection that waits to be read.
            self.transport.abort()
        else:
            self.transport.close()
