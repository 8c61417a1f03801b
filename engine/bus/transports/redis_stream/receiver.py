"""One consumer's end of a group: leasing, waiting, settling and extending."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from engine.bus.transport import Delivery, Settlement
from engine.bus.transports.redis_stream.end import PartitionReader
from engine.bus.transports.redis_stream.keys import GroupKeys
from engine.bus.transports.redis_stream.link import BLOCK_MARGIN_S, Link
from engine.bus.transports.redis_stream.times import StoreTime
from engine.core.errors import Unavailable

#: The longest single blocking read, in seconds; a dead connection is noticed that much later.
BLOCK_S = 5.0
#: How long closing waits for a receive that is under way, in seconds.
CLOSE_S = 2.0
#: The longest blocking read under an injected clock, in seconds: such time passes without the server noticing.
INJECTED_BLOCK_S = 0.02


class Waiting:
    """A connection of its own for a receiver's reads, and the waiting between them."""

    def __init__(self, link: Link, url: str, time: StoreTime) -> None:
        self.link = Link(url, answer_timeout_s=BLOCK_S + BLOCK_MARGIN_S)
        self.closed = False
        self._others = link
        self._time = time
        #: Clear while a receive is under way.
        self._outside = threading.Event()
        self._outside.set()

    @contextlib.contextmanager
    def inside(self) -> Any:
        """Around each receive."""
        self._outside.clear()
        try:
            yield
        finally:
            self._outside.set()
            if self.closed:
                self.link.close()

    def wait(self, idle: Sequence[tuple[GroupKeys, list[Any]]], left_s: float) -> None:
        """Block until there may be something, something is due, or the time is up."""
        watched: list[str] = []
        seen: list[Any] = []
        for keys, reply in idle:
            if reply[0] == b"paused":
                watched.append(keys.wake)
                seen += reply[1:]
                continue
            due_ms, *ids = reply[1:]
            watched += (*keys.streams, keys.wake)
            seen += ids
            if due_ms >= 0:
                left_s = min(left_s, (due_ms + 1) / 1000)
        left_s = min(left_s, INJECTED_BLOCK_S if self._time.injected else BLOCK_S)
        # BLOCK 0 would mean for ever.
        block_ms = max(1, int(left_s * 1000))
        self.link.command("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *watched, *seen)

    def close(self, wake: Sequence[str]) -> None:
        """End a receive that is under way by touching what it watches, and free the connection."""
        self.closed = True
        if not self._outside.is_set():
            # A store that is away ends the wait by itself.
            with contextlib.suppress(Unavailable):
                self.touch(wake)
            self._outside.wait(CLOSE_S)
        self.link.close()

    def touch(self, wake: Sequence[str]) -> None:
        """Let whoever watches one of these look again."""
        for key in wake:
            self._others.command("XADD", key, "NOMKSTREAM", "MAXLEN", 1, "*", "look", "again")


class RedisStreamReceiver:
    """See :class:`engine.bus.transport.Receiver`. Holds one connection of its own for waiting."""

    def __init__(self, link: Link, url: str, end: PartitionReader, time: StoreTime) -> None:
        self._link = link
        self._end = end
        self._waiting = Waiting(link, url, time)

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        with self._waiting.inside():
            return self._receive(limit, time.monotonic() + wait_s)

    def _receive(self, limit: int, deadline: float) -> list[Delivery]:
        waiting, end = self._waiting, self._end
        while not waiting.closed:
            reply = end.lease(waiting.link, limit)
            if reply[0] == b"got":
                return end.deliveries(reply)
            left_s = deadline - time.monotonic()
            # Looked at after leasing: what close() puts into `wake` is either in this reply or will end the wait.
            if left_s <= 0 or waiting.closed:
                break
            waiting.wait([(end.keys, reply)], left_s)
        return []

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        return self._end.settle(self._link, batch)

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        return self._end.extend(self._link, receipts)

    def close(self) -> None:
        self._waiting.close((self._end.keys.wake,))
