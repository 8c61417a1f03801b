"""nsqd's HTTP interface: short calls on connections that are kept, and errors that say whether a call may have run.

Publishing goes this way rather than over the TCP protocol: a 200 is nsqd's own confirmation of just this batch, while
pynsq's writer matches answers by order, fails everything under way on one error frame, and calls a socket write done.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
from collections import deque
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError, Unavailable

CONNECT_TIMEOUT_S = 3.0
#: Seconds to wait for an answer.
ANSWER_TIMEOUT_S = 10.0
#: How many connections wait for their next use.
IDLE_MOST = 8

_TROUBLE = (OSError, http.client.HTTPException)


class CallNotSent(Unavailable):
    """The call did not reach nsqd: it certainly did nothing."""


class CallAnswerLost(Unavailable):
    """The call was sent and no answer came: it may have been done."""


class CallRefused(Unavailable):
    """nsqd answered with an error. :attr:`status` is the HTTP status, :attr:`words` its own."""

    def __init__(self, address: str, status: int, words: str) -> None:
        super().__init__(f"nsqd at {address} refused: {words} ({status}).", remedy="Look at nsqd's log.")
        self.status = status
        self.words = words


def split_address(url: str, field: str) -> tuple[str, int]:
    """Host and port of ``http://host:port``; raises :class:`ConfigurationError` naming ``field``."""
    parts = urlsplit(url if "//" in url else f"http://{url}")
    with contextlib.suppress(ValueError):
        if parts.scheme == "http" and parts.hostname and parts.port:
            return parts.hostname, parts.port
    raise ConfigurationError(
        f"{field} holds {url!r}, which is no address.", remedy="Write http://host:4151.", field=field
    )


class HttpDoor:
    """Calls to one address. Thread-safe; each call has a connection of its own while it runs."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        #: How often a connection was lost: nsqd may have been another one, or an empty one, since.
        self.losses = 0
        self._idle: deque[http.client.HTTPConnection] = deque(maxlen=IDLE_MOST)

    def __repr__(self) -> str:
        return f"HttpDoor({self.address})"

    def get(self, path: str, **query: str) -> Any:
        """The JSON that ``path`` answers. Raises :class:`Unavailable` of some kind."""
        try:
            return msgspec.json.decode(self._call("GET", path, query, b""))
        except msgspec.DecodeError as error:
            raise CallRefused(self.address, 200, f"no JSON from {path}: {error}") from error

    def post(self, path: str, body: bytes = b"", **query: str) -> None:
        """Do ``path``. Raises :class:`CallNotSent`, :class:`CallAnswerLost` or :class:`CallRefused`."""
        self.begin(path, body, **query).answer()

    def begin(self, path: str, body: bytes, **query: str) -> CallUnderWay:
        """Send what :meth:`post` does; the answer may be asked for later. Raises :class:`CallNotSent`."""
        return self._begin("POST", path, query, body)

    def ping(self) -> None:
        """Whether nsqd says it is well. Raises :class:`Unavailable`."""
        self._call("GET", "/ping", {}, b"")

    def close(self) -> None:
        """Close what waits. Idempotent; a later call opens a connection again."""
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _call(self, method: str, path: str, query: dict[str, str], body: bytes) -> bytes:
        return self._begin(method, path, query, body).answer()

    def _begin(self, method: str, path: str, query: dict[str, str], body: bytes) -> CallUnderWay:
        connection = self._connect()
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            connection.request(method, target, body=body or None)
        except _TROUBLE as error:
            connection.close()
            self.losses += 1
            # nsqd acts on a call only when it has all of it.
            raise self._not_sent(error) from error
        return CallUnderWay(self, connection)

    def answer(self, connection: http.client.HTTPConnection) -> bytes:
        """What is answered on ``connection``, which then waits for its next use. Raises as :meth:`post`."""
        try:
            response = connection.getresponse()
            answer = response.read()
        except _TROUBLE as error:
            connection.close()
            self.losses += 1
            said = words_of(error) or "closed"
            raise CallAnswerLost(
                f"The connection to nsqd at {self.address} broke before its answer came: {said}.",
                remedy="Make sure that it runs; then try again.",
            ) from error
        self._idle.append(connection)
        if response.status != 200:
            raise CallRefused(self.address, response.status, _words(answer))
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            # What nsqd has closed meanwhile is readable; a call sent into it would be lost without a trace.
            if connection.sock is not None and not _readable(connection.sock):
                return connection
            connection.close()
            self.losses += 1
        connection = http.client.HTTPConnection(self.host, self.port, timeout=CONNECT_TIMEOUT_S)
        try:
            connection.connect()
        except _TROUBLE as error:
            self.losses += 1
            raise self._not_sent(error) from error
        connection.sock.settimeout(ANSWER_TIMEOUT_S)
        return connection

    def _not_sent(self, error: Exception) -> CallNotSent:
        return CallNotSent(
            f"nsqd at {self.address} cannot be reached: {words_of(error)}.",
            remedy="Make sure that it runs and that NSQD_URL names it.",
        )


class CallUnderWay:
    """A call that was sent. One that is never answered closes its connection."""

    __slots__ = ("_connection", "_door")

    def __init__(self, door: HttpDoor, connection: http.client.HTTPConnection) -> None:
        self._door = door
        self._connection = connection

    def answer(self) -> bytes:
        """Wait for the answer, once. Raises :class:`CallAnswerLost` or :class:`CallRefused`."""
        return self._door.answer(self._connection)


def _readable(open_socket: socket.socket) -> bool:
    # Not by select, which takes no descriptor above 1,023.
    watch = select.poll()
    watch.register(open_socket, select.POLLIN)
    return bool(watch.poll(0))


def _words(answer: bytes) -> str:
    try:
        return str(msgspec.json.decode(answer)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return answer.decode("utf-8", "replace")[:200] or "no words"
