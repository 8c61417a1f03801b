"""nsqd's HTTP interface: short calls on connections that are kept, and errors that say whether a call may have run.

Publishing goes this way rather than over the TCP protocol: a 200 is nsqd's own confirmation of just this batch, while
pynsq's writer matches answers by order, fails everything under way on one error frame, and calls a socket write done.
The little of HTTP that this takes is done here: Python's own client spends four times as long on a call.
"""

from __future__ import annotations

import contextlib
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

#: The longest line of an answer's head, in bytes.
_LINE_MOST = 65_536


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
        self._idle: deque[_Connection] = deque(maxlen=IDLE_MOST)

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
        head = f"{method} {target} HTTP/1.1\r\nHost: {self.address}\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            connection.socket.sendall(head.encode() + body)
        except OSError as error:
            connection.close()
            self.losses += 1
            # nsqd acts on a call only when it has all of it.
            raise self._not_sent(error) from error
        return CallUnderWay(self, connection)

    def answer(self, connection: _Connection) -> bytes:
        """What is answered on ``connection``, which then waits for its next use. Raises as :meth:`post`."""
        try:
            status, answer, stays = connection.read()
        except (OSError, ValueError) as error:
            connection.close()
            self.losses += 1
            raise CallAnswerLost(
                f"The connection to nsqd at {self.address} broke before its answer came: {error or 'closed'}.",
                remedy="Make sure that it runs; then try again.",
            ) from error
        if stays:
            self._idle.append(connection)
        else:
            connection.close()
        if status != 200:
            raise CallRefused(self.address, status, _words(answer))
        return answer

    def _connect(self) -> _Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            # What nsqd has closed meanwhile is readable; a call sent into it would be lost without a trace.
            if not select.select([connection.socket], [], [], 0)[0]:
                return connection
            connection.close()
            self.losses += 1
        try:
            return _Connection(self.host, self.port)
        except OSError as error:
            self.losses += 1
            raise self._not_sent(error) from error

    def _not_sent(self, error: Exception) -> CallNotSent:
        return CallNotSent(
            f"nsqd at {self.address} cannot be reached: {words_of(error)}.",
            remedy="Make sure that it runs and that NSQD_URL names it.",
        )


class _Connection:
    """One connection, used by one call at a time. Raises ``OSError`` when connecting."""

    __slots__ = ("_file", "socket")

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(ANSWER_TIMEOUT_S)
        self._file = self.socket.makefile("rb")

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def read(self) -> tuple[int, bytes, bool]:
        """Status and body of an answer, and whether the connection stays open.

        Raises ``OSError`` where it broke, ``ValueError`` where what came is no answer.
        """
        version, status, *_ = self._line().split(None, 2)
        if not version.startswith(b"HTTP/1."):
            raise ValueError(f"{version[:20]!r} is no HTTP")
        length, chunked, stays = -1, False, version != b"HTTP/1.0"
        while line := self._line():
            name, _, value = line.lower().partition(b":")
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                chunked = value.strip() == b"chunked"
            elif name == b"connection":
                stays = value.strip() != b"close"
        if chunked:
            return int(status), self._chunks(), stays
        if length < 0:
            return int(status), self._file.read(), False
        return int(status), self._exactly(length), stays

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self._line().partition(b";")[0], 16):
            parts.append(self._exactly(size))
            self._line()
        while self._line():
            pass
        return b"".join(parts)

    def _line(self) -> bytes:
        line = self._file.readline(_LINE_MOST)
        if not line.endswith(b"\n"):
            raise ConnectionResetError("closed")
        return line.rstrip(b"\r\n")

    def _exactly(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise ConnectionResetError("closed")
        return found


class CallUnderWay:
    """A call that was sent. One that is never answered closes its connection."""

    __slots__ = ("_connection", "_door")

    def __init__(self, door: HttpDoor, connection: _Connection) -> None:
        self._door = door
        self._connection = connection

    def answer(self) -> bytes:
        """Wait for the answer, once. Raises :class:`CallAnswerLost` or :class:`CallRefused`."""
        return self._door.answer(self._connection)


def _words(answer: bytes) -> str:
    try:
        return str(msgspec.json.decode(answer)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return answer.decode("utf-8", "replace")[:200] or "no words"
