"""What flows from the nsqds to one receiver: connections, how much may come, and what has come and nobody has yet."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from tornado.ioloop import IOLoop

from engine.bus.transports.nsq.connection import HEARTBEAT_S, Arrived, NsqdConnection, shut_all
from engine.bus.transports.nsq.leases import DeliveryLease, DeliveryLeases, uncount
from engine.bus.transports.nsq.loop import EventLoopThread
from engine.bus.transports.nsq.names import GroupNames
from engine.bus.transports.nsq.nodes import Node, Nodes
from engine.core.errors import Unavailable

#: How much longer than our lease nsqd waits, in ms: by then whoever asks beside can see that the lease has run out.
TIMEOUT_MARGIN_MS = 500
#: nsqd waits no longer than this (its ``--max-msg-timeout``) whatever it is asked for.
LONGEST_TIMEOUT_MS = 15 * 60 * 1000
#: Seconds between two looks for nsqds without a connection.
LOOK_S = 1.0
#: A lost connection is tried again after so many seconds, doubling up to the second. pynsq's reader would wait for 15.
RECONNECT_FIRST_S, RECONNECT_MOST_S = 0.1, 5.0
#: What has come and nobody asked for within so many seconds goes back, so that others may have it.
IDLE_S = 1.0

_log = logging.getLogger(__name__)


class _Link:
    """How it stands with one nsqd."""

    def __init__(self) -> None:
        self.connection: NsqdConnection | None = None
        self.failures = 0
        self.next_try = 0.0
        self.seen = False


class Inflow:
    """Opened, looked after and emptied by the receiver's thread; filled by the loop."""

    def __init__(
        self,
        loop: EventLoopThread,
        nodes: Nodes,
        names: GroupNames,
        *,
        consumer: str,
        lease_ms: int,
        leases: DeliveryLeases,
        on_gone: Callable[[NsqdConnection], None],
        on_missing: Callable[[Node], None],
    ) -> None:
        self._loop = loop
        self._nodes = nodes
        self._names = names
        self._consumer = consumer
        self._timeout_ms = min(lease_ms + TIMEOUT_MARGIN_MS, LONGEST_TIMEOUT_MS)
        self._leases = leases
        self._on_gone = on_gone
        self._on_missing = on_missing
        self._links: dict[str, _Link] = {}
        self._buffer: deque[Arrived] = deque()
        self._target = 0
        self._looked = float("-inf")
        self._asked = time.monotonic()
        self._watched = False
        self._closed = False
        #: Set when something has come or changed.
        self.news = threading.Event()
        #: Why an nsqd is not connected; empty when all are.
        self.trouble = ""

    @property
    def connected(self) -> bool:
        """Whether any nsqd can send."""
        return any(link.connection is not None and link.connection.open for link in self._links.values())

    @property
    def newest(self) -> dict[str, str]:
        """The latest id that came from each nsqd and was handed out, by its name; none of one that is not connected."""
        return {
            name: link.connection.newest
            for name, link in list(self._links.items())
            if link.connection is not None and link.connection.open and link.connection.newest
        }

    def __len__(self) -> int:
        return len(self._buffer)

    def look_after(self) -> None:
        """Replace what is broken and connect to what is new; costs nothing most of the time."""
        now = time.monotonic()
        self._asked = now
        ended = any(link.connection is not None and link.connection.over for link in self._links.values())
        waiting = any(link.connection is None for link in self._links.values())
        if not ended and not waiting and now - self._looked < LOOK_S:
            return
        self._looked = now
        for node in self._nodes.all():
            self._look_after(node, self._links.setdefault(node.name, _Link()), now)
        self.trouble = "; ".join(
            f"{name}: {link.connection.error if link.connection else 'not connected'}"
            for name, link in self._links.items()
            if link.connection is None or link.connection.over
        )

    def take(self, most: int) -> list[Arrived]:
        """What has come, oldest first; clears :attr:`news` before it looks."""
        self.news.clear()
        taken = self._pop(most)
        for each in taken:
            each.connection.newest = each.id
        return taken

    def put_back(self, messages: Sequence[Arrived]) -> None:
        """Not handed out after all: they come first the next time."""
        self._buffer.extendleft(reversed(messages))

    def give_back(self, messages: Sequence[Arrived]) -> None:
        """Back to nsqd, for anybody."""
        self._loop.post(lambda: self._requeue(messages))

    def want(self, messages: int) -> None:
        """Let so many come and wait here; 0: only what is in hand already."""
        if messages != self._target:
            self._target = messages
            self._loop.post(self.tune)

    def tune(self) -> None:
        """On the loop: tell every nsqd how much it may send."""
        open_ones = [
            link.connection
            for link in list(self._links.values())
            if link.connection is not None and link.connection.open
        ]
        if not open_ones:
            return
        room = max(0, self._target - len(self._buffer))
        share = -(-room // len(open_ones))
        for connection in open_ones:
            connection.let_in(share)

    def close(self) -> list[Arrived]:
        """Give back what nobody had, and close; returns what came from connections that are gone."""
        self._closed = True
        self.news.set()
        left = self._pop(len(self._buffer))
        stranded = [each for each in left if not each.connection.open]
        self.give_back([each for each in left if each.connection.open])
        connections = [link.connection for link in self._links.values() if link.connection is not None]
        shut_all(self._loop, connections)
        for connection in connections:
            self._on_gone(connection)
        return stranded

    def _look_after(self, node: Node, link: _Link, now: float) -> None:
        connection = link.connection
        if connection is not None and connection.open:
            if connection.silent_s() <= 2.5 * HEARTBEAT_S:
                link.failures = 0
                return
            _log.warning("nsqd at %s has not been heard of for %.0f s", node.name, connection.silent_s())
            shut_all(self._loop, [connection])
            link.connection = None
            self._on_gone(connection)
        elif connection is not None and not connection.over:
            return
        elif connection is not None:
            link.connection = None
            link.next_try = now + self._pause(link)
            self._on_gone(connection)
        if now < link.next_try:
            return
        try:
            self._check_channel(node, link)
            link.connection = made = NsqdConnection(
                node.host,
                node.tcp_port(),
                topic=self._names.topic.nsq,
                channel=self._names.channel,
                consumer=self._consumer,
                timeout_ms=self._timeout_ms,
                started_s=node.started_s,
                on_messages=self._arrived,
                on_change=self._changed,
            )
        except Unavailable as error:
            link.next_try = now + self._pause(link)
            _log.warning("nsqd at %s: %s", node.name, error)
            return
        self._loop.post(made.start)

    def _check_channel(self, node: Node, link: _Link) -> None:
        """Subscribing would make a channel that is gone, and nobody would learn what was lost with it."""
        channels = node.channels(self._names.topic.nsq)
        if channels is None or self._names.channel not in channels:
            if link.seen:
                self._on_missing(node)
            node.make(self._names.topic.nsq, [self._names.channel])
        link.seen = True

    def _pause(self, link: _Link) -> float:
        link.failures += 1
        longest = min(RECONNECT_FIRST_S * 2.0 ** (link.failures - 1), RECONNECT_MOST_S)
        return longest * (0.5 + random.random() / 2)  # noqa: S311 - so that not all come back at once

    def _arrived(self, messages: list[Arrived]) -> None:
        self._buffer.extend(messages)
        self.news.set()
        if not self._watched:
            self._watched = True
            IOLoop.current().call_later(IDLE_S, self._watch)

    def _changed(self) -> None:
        self.tune()
        if any(link.connection is not None and link.connection.over for link in list(self._links.values())):
            self.news.set()

    def _watch(self) -> None:
        """Every second, on the loop, from the first message on."""
        if self._closed:
            return
        IOLoop.current().call_later(IDLE_S, self._watch)
        self._leave_what_nsqd_gave_up()
        if self._buffer and time.monotonic() - self._asked > IDLE_S:
            # Nobody asks for what has come: a slow handler, or a pause. Others may have it.
            self._target = 0
            waiting = self._pop(len(self._buffer))
            # What came from an nsqd that is gone may be all there is left of it.
            self._buffer.extend(each for each in waiting if not each.connection.open)
            self._requeue([each for each in waiting if each.connection.open])

    def _leave_what_nsqd_gave_up(self) -> None:
        """A lease that ran out unsettled counts no more: else nsqd would be asked for as many again."""
        mine = {link.connection for link in list(self._links.values()) if link.connection is not None}
        by_connection: defaultdict[NsqdConnection, list[DeliveryLease]] = defaultdict(list)
        for lease in self._leases.given_up(mine, time.monotonic() - TIMEOUT_MARGIN_MS / 1000):
            assert lease.connection is not None
            by_connection[lease.connection].append(lease)
        for connection, leases in by_connection.items():
            connection.leave(uncount(leases))

    def _pop(self, most: int) -> list[Arrived]:
        # The loop and the receiver's thread may both be at it.
        taken: list[Arrived] = []
        with contextlib.suppress(IndexError):
            while len(taken) < most:
                taken.append(self._buffer.popleft())
        return taken

    def _requeue(self, messages: Sequence[Arrived]) -> None:
        by_connection: defaultdict[NsqdConnection, list[Arrived]] = defaultdict(list)
        for each in messages:
            by_connection[each.connection].append(each)
        for connection, some in by_connection.items():
            connection.requeue(some)
