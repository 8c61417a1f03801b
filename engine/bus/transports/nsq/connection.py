"""One TCP connection to one nsqd, on pynsq's ``AsyncConn``; everything here runs on the loop.

``AsyncConn`` rather than ``Reader``: a reader finishes, requeues, backs off, redistributes RDY and reconnects by rules
of its own, and each of these is somebody else's decision here. What arrives is taken apart many frames at a time.
"""

from __future__ import annotations

import asyncio
import logging
import re
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from nsq import event, protocol
from nsq.conn import AsyncConn
from tornado.ioloop import IOLoop
from tornado.iostream import StreamClosedError

from engine.bus.transports.nsq.loop import EventLoopThread
from engine.bus.transports.nsq.names import first_id
from engine.core.error_text import words_of

CONNECT_TIMEOUT_S = 3.0
#: nsqd and we look for each other's life this often, in seconds; one that is silent for two and a half is gone.
HEARTBEAT_S = 10
#: What one read takes at most.
CHUNK = 256 * 1024
#: The lowest that an nsqd takes unless it is told otherwise: ms for which it may collect messages before sending. Not
#: collecting at all makes it seven times slower.
OUTPUT_BUFFER_MS = 25
#: For how long, in seconds, and how many finished ids are remembered: nsqd may not have heard, or not have noted it.
FINISHED_S = 6.0
FINISHED_MOST = 100_000
#: How many ids are remembered that were finished or given back after nsqd had stopped waiting for them.
OVERDUE_MOST = 1_000

_MESSAGE = protocol.FRAME_TYPE_MESSAGE
_HEAD = struct.Struct(">ii")
# pynsq reads the attempts as a signed number, and nsqd counts up to 65535.
_STAMP = struct.Struct(">qH")
_NOT_TAKEN = re.compile(rb"E_(?:FIN|REQ)_FAILED (FIN|REQ) ([0-9a-f]{16}) ")
_NOT_FATAL = (b"E_FIN_FAILED", b"E_REQ_FAILED", b"E_TOUCH_FAILED")

_log = logging.getLogger(__name__)


class Arrived(msgspec.Struct, frozen=True, gc=False):
    """A message as nsqd sent it, not handed to anybody yet."""

    id: str
    body: bytes
    #: How often nsqd has sent it, this time included.
    attempts: int
    #: Monotonic seconds.
    at: float
    connection: NsqdConnection


class NsqdConnection(AsyncConn):  # type: ignore[misc]
    """Made on any thread, connected and used on the loop; :attr:`open` and :attr:`error` may be read from anywhere."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        topic: str,
        channel: str,
        consumer: str,
        timeout_ms: int,
        started_s: int,
        on_messages: Callable[[list[Arrived]], None],
        on_change: Callable[[], None],
    ) -> None:
        super().__init__(
            host,
            port,
            heartbeat_interval=HEARTBEAT_S,
            output_buffer_timeout=OUTPUT_BUFFER_MS,
            user_agent="hbus",
            msg_timeout=timeout_ms / 1000,
            hostname=consumer,
        )
        self._topic = topic
        self._channel = channel
        self._on_messages = on_messages
        self._on_change = on_change
        self._timeout_s = timeout_ms / 1000
        #: The latest that came from here and was handed out: those before it were, too, or are lost, most likely.
        self.newest = ""
        self._begun = time.monotonic()
        #: nsqd tells the second it was started in; what it took in the rest of that second passes for older.
        self._first_id = first_id((started_s + 1) * 1000)
        #: Subscribed, and not closed.
        self.open = False
        #: Over: it never opens (again).
        self.over = False
        #: Why it is over.
        self.error = ""
        #: Ids that nsqd would not finish, because it had given up waiting for them.
        self.not_finished: deque[str] = deque(maxlen=FINISHED_MOST)
        self._finished: deque[tuple[float, list[str]]] = deque()
        self._finished_count = 0
        #: How many nsqd counts as in flight here that nothing takes off again: see :meth:`may_double`.
        self._adrift = 0
        self._overdue: deque[str] = deque(maxlen=OVERDUE_MOST)
        self._pump: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Connect, identify and subscribe; :attr:`open` or :attr:`over` tells when."""
        self.on(event.READY, self._subscribe)
        self.on(event.CLOSE, self._closed)
        self.on(event.ERROR, self._failed)
        self.connect()
        # pynsq's own timeout is undone by making the socket non-blocking.
        IOLoop.current().call_later(CONNECT_TIMEOUT_S, self._give_up)

    def silent_s(self) -> float:
        """Seconds since nsqd was last heard of."""
        return float(time.time() - self.last_recv_timestamp)

    def may_double(self, message_id: str) -> bool:
        """Whether nsqd may have two copies of it in the channel, under this one id.

        It writes a message to the topic's file and from there to the channel's, and notes with a sync only how far it
        has read the topic's: killed before that, it reads on from further back. A copy that it sends while another is
        in flight it counts with the consumer without noting it: finishing it fails, and the count stays.
        """
        return message_id < self._first_id

    def finish(self, ids: list[str], counted: int, overdue: Iterable[str] = ()) -> bool:
        """Tell nsqd to forget these, of which so many were counted among those in flight, and some may be overdue.

        ``False``: it cannot be told.
        """
        self._overdue.extend(overdue)
        # First what may come: each that is finished would otherwise let in another that nobody asked for.
        self.leave(counted)
        if not self.open:
            return not ids
        if ids:
            self._finished.append((time.monotonic(), ids))
            self._finished_count += len(ids)
            self._forget_old()
            try:
                self.send("".join([f"FIN {each}\n" for each in ids]).encode())
            except StreamClosedError:
                return False
        return True

    def leave(self, number: int) -> None:
        """So many are no longer with this consumer."""
        self.in_flight -= number
        self._on_change()

    def drop(self, messages: Sequence[Arrived]) -> None:
        """Finish what nobody was given."""
        self.finish([each.id for each in messages], len(messages), self._late_ones(messages))

    def requeue(self, messages: Sequence[Arrived]) -> None:
        """Give these back at once: no delay, which nsqd would keep in its memory only, and no backoff."""
        self._overdue.extend(self._late_ones(messages))
        self.leave(len(messages))
        if self.open:
            self.send(b"".join([protocol.requeue(each.id, 0) for each in messages]))

    def touch(self, ids: Iterable[str]) -> None:
        """Ask for the whole time again, from now."""
        if self.open:
            self.send(b"".join([protocol.touch(each) for each in ids]))

    def let_in(self, more: int) -> None:
        """Allow so many messages beyond those in flight."""
        if self.open:
            self.send_rdy(max(0, min(self.max_rdy_count, self.in_flight + self._adrift + more)))

    def finished_lately(self) -> list[str]:
        """What was finished shortly before the end; nsqd may send it again if it died without having noted it."""
        return [each for _, ids in self._finished for each in ids]

    def shut(self) -> None:
        """Close for good."""
        if self.stream is not None:
            self.stream.close()
        self.open, self.over = False, True

    def _connect_callback(self, fut: asyncio.Future[Any]) -> None:
        try:
            super()._connect_callback(fut)
        except (OSError, StreamClosedError) as error:
            self._end(f"cannot connect: {getattr(error, 'real_error', None) or error}")

    def _give_up(self) -> None:
        if not self.open and not self.over:
            self._end(f"no connection within {CONNECT_TIMEOUT_S:g} s")
            self.shut()

    def _start_read(self) -> None:
        self._pump = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        rest = b""
        try:
            while True:
                chunk = await self.stream.read_bytes(CHUNK, partial=True)
                self.last_recv_timestamp = time.time()
                rest = self._take(rest + chunk if rest else chunk)
        except StreamClosedError:
            return
        except Exception as error:  # noqa: BLE001 - and logged
            # Without this the future would keep the error to itself, and the connection would only fall silent.
            _log.exception("what nsqd at %s sent cannot be read", self.id)
            self._end(f"unreadable: {words_of(error)}")
            self.shut()

    def _take(self, data: bytes) -> bytes:
        """Handle every whole frame; returns what is left."""
        arrived: list[Arrived] = []
        at, end, now = 0, len(data), time.monotonic()
        while end - at >= 8:
            size, kind = _HEAD.unpack_from(data, at)
            following = at + 4 + size
            if following > end:
                break
            if kind == _MESSAGE:
                _, attempts = _STAMP.unpack_from(data, at + 8)
                arrived.append(
                    Arrived(data[at + 18 : at + 34].decode("ascii"), data[at + 34 : following], attempts, now, self)
                )
            else:
                self.trigger(event.DATA, conn=self, data=data[at + 4 : following])
            at = following
        if arrived:
            self.in_flight += len(arrived)
            self._on_messages(arrived)
        return data[at:]

    def _subscribe(self, **_: Any) -> None:
        self.on(event.RESPONSE, self._subscribed)
        self.send(protocol.subscribe(self._topic, self._channel))

    def _subscribed(self, **_: Any) -> None:
        self.off(event.RESPONSE, self._subscribed)
        self.open = True
        self._on_change()

    def _failed(self, error: Exception, **_: Any) -> None:
        words = error.args[0] if error.args and isinstance(error.args[0], bytes) else words_of(error).encode()
        if found := _NOT_TAKEN.match(words):
            self._note_not_taken(found[1], found[2].decode())
        text = words.decode("utf-8", "replace")
        if words.startswith(_NOT_FATAL):
            _log.info("nsqd at %s: %s (%s/%s)", self.id, text, self._topic, self._channel)
            return
        self._end(text)

    def _note_not_taken(self, command: bytes, message_id: str) -> None:
        if command == b"FIN":
            self.not_finished.append(message_id)
        # What nsqd had stopped waiting for it took off its count then.
        if self.may_double(message_id) and message_id not in self._overdue:
            self._adrift += 1
            self._on_change()

    def _late_ones(self, messages: Sequence[Arrived]) -> list[str]:
        edge = time.monotonic() - self._timeout_s
        return [each.id for each in messages if each.at < edge]

    def _closed(self, **_: Any) -> None:
        self._end("the connection was closed")

    def _end(self, why: str) -> None:
        if not self.over:
            self.error = self.error or why
            _log.warning("connection to nsqd at %s for %s/%s: %s", self.id, self._topic, self._channel, self.error)
        self.open, self.over = False, True
        self._on_change()

    def _forget_old(self) -> None:
        edge = time.monotonic() - FINISHED_S
        while self._finished and (self._finished[0][0] < edge or self._finished_count > FINISHED_MOST):
            self._finished_count -= len(self._finished.popleft()[1])


def shut_all(loop: EventLoopThread, connections: Iterable[NsqdConnection]) -> None:
    """Close connections from any thread, once what was posted before has been done."""

    def shut() -> None:
        for connection in connections:
            connection.shut()

    loop.post(shut)
