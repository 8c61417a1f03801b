"""Going over the copies of what was published, behind the consumers: what nsqd has lost is handed out from its copy."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from engine.bus.transports.nsq.copies import unpacked
from engine.bus.transports.nsq.http import ANSWER_TIMEOUT_S
from engine.bus.transports.nsq.names import GroupNames, copy_id, digest_of, first_id, released_score
from engine.bus.transports.nsq.nodes import Nodes
from engine.bus.transports.nsq.side_store import SideStore

#: A copy younger than this, in ms, is left alone: its message is on its way.
YOUNG_MS = 2_000
#: By so much, in ms, the clocks of nsqd and store may differ. Beyond that what nsqd still has may be taken for lost:
#: its copy is handed out, and what comes from nsqd later is finished unseen.
APART_MS = 2_000
#: How much later than its copy nsqd may have taken a message, in ms: who publishes waits so long for its answer.
TAKEN_MS = round(ANSWER_TIMEOUT_S * 1000) + APART_MS
#: How late, in ms, a consumer whose lease ran out may be, and nsqd with sending it again.
LATE_MS = 2_000
#: Seconds between two turns: while there is more to go over, and when there was not.
BUSY_S, IDLE_S = 0.1, 1.0
#: The most that one turn goes over, in seconds: deliveries wait meanwhile.
TURN_S = 0.05
#: The most messages one call is about, and copies.
MESSAGES, COPIES = 500, 200
#: So many bytes of copies are asked for at most, as far as can be told from those before.
READ_BYTES = 1 << 20

_log = logging.getLogger(__name__)


class _Message:
    """One message of a copy."""

    __slots__ = ("body", "copy", "digest", "index")

    def __init__(self, copy: str, index: int, body: bytes) -> None:
        self.copy = copy
        self.index = index
        self.body = body
        self.digest = digest_of(body)

    @property
    def at_ms(self) -> int:
        return int(self.copy.partition("-")[0])

    def args(self, *, whole: bool) -> tuple[str | bytes, ...]:
        made = copy_id(self.copy, self.index)
        highest = first_id(self.at_ms + TAKEN_MS)
        return (self.digest, made, released_score(made), highest, self.body if whole else b"")


class Sweeper:
    """Of one group, on one thread. One of all that the group has anywhere has the turn.

    Who does not ask for :meth:`take_vanished` is not ``tells``, and leaves these to others.
    """

    def __init__(self, side_store: SideStore, nodes: Nodes, names: GroupNames, *, tells: bool = True) -> None:
        self._side_store = side_store
        self._nodes = nodes
        self._names = names
        self._tells = tells
        self._next = 0.0
        self._scan: bytes | str = "0"
        self._count = 1
        self._vanished: deque[str] = deque()
        #: Whether there are copies, as far as is known.
        self.copies_seen = True

    def turn(self, newest: str) -> None:
        """Go over what is next, if it is time; costs nothing most of the time.

        ``newest`` is the id that every nsqd has gone beyond, see :attr:`~.inflow.Inflow.newest`. Raises
        :class:`Unavailable` and :class:`~engine.bus.errors.GroupLost`.
        """
        begun = time.monotonic()
        if begun < self._next:
            return
        self._next = begun + IDLE_S
        turn: str | int = round(BUSY_S * 1000)
        while found := self._look(turn):
            turn = ""
            cursor, copies = found
            going_on = self._go_over(cursor, _messages(copies), newest) and bool(copies)
            if not going_on:
                return
            if time.monotonic() - begun > TURN_S:
                self._next = time.monotonic() + BUSY_S
                return

    def take_vanished(self) -> list[str]:
        """See :class:`engine.bus.optional.TellsVanished`."""
        found = []
        while self._vanished:
            found.append(self._vanished.popleft())
        return found

    def _look(self, turn: str | int) -> tuple[str, list[tuple[str, bytes]]] | None:
        names = self._names
        keys = (names.turn, names.topic.copies, names.topic.cursors)
        reply = self._side_store.run("look", keys, (names.channel, turn, YOUNG_MS, self._count))
        if not reply:
            return None
        cursor, entries, in_all = reply
        self.copies_seen = in_all > 0
        copies = [(each.decode(), fields[1]) for each, fields in entries]
        if copies:
            longest = max(len(body) for _, body in copies)
            self._count = max(1, min(COPIES, 2 * self._count, READ_BYTES // longest))
        return cursor.decode(), copies

    def _go_over(self, cursor: str, messages: Sequence[_Message], newest: str) -> bool:
        """Whether the group has come further."""
        last = messages[-1].copy if messages else cursor
        reply = self._run(cursor, last, [each.args(whole=False) for each in messages])
        if reply[0] == b"wanted":
            in_hand, unknown = ({number - 1 for number in numbers} for numbers in reply[1:])
            if unknown and not self._lost(messages[max(unknown)], newest):
                return False
            whole = in_hand | unknown
            reply = self._run(cursor, last, [each.args(whole=index in whole) for index, each in enumerate(messages)])
        if reply[0] != b"done":
            # Another was faster, or settled something meanwhile: the next turn sees what is left.
            return False
        _, recovered, _, missing, self._scan = reply
        if recovered:
            _log.warning(
                "%d messages of %s come from their copies: nsqd has lost them, or put them behind others",
                recovered,
                self._where,
            )
        if missing and self._tells:
            self._tell_vanished(last)
        return True

    def _tell_vanished(self, cursor: str) -> None:
        """Somebody held them, nobody has them, and nsqd has nothing."""
        with_nsqd = self._nodes.held_for(self._names.topic.nsq, self._names.channel)
        if with_nsqd != 0:
            return
        reply = self._run(cursor, cursor, (), with_nsqd)
        if reply[0] == b"done":
            self._vanished.extend(each.decode() for each in reply[2])

    def _lost(self, message: _Message, newest: str) -> bool:
        """Whether nsqd has most likely lost it; should it come after all, nobody gets it twice."""
        if newest > first_id(message.at_ms + APART_MS):
            return True
        return self._nodes.held_for(self._names.topic.nsq, self._names.channel) == 0

    def _run(self, cursor: str, last: str, messages: Sequence[tuple[str | bytes, ...]], with_nsqd: int = -1) -> Any:
        names = self._names
        args: list[str | int | bytes] = [names.channel, cursor, last, with_nsqd, self._scan, LATE_MS]
        for each in messages:
            args += each
        return self._side_store.run("sweep", names.sweep, args, group=names.channel)

    @property
    def _where(self) -> str:
        return f"{self._names.topic.nsq}/{self._names.channel}"


def _messages(copies: Sequence[tuple[str, bytes]]) -> list[_Message]:
    """Of as many whole copies as one call is about; of one at least."""
    found: list[_Message] = []
    for copy, body in copies:
        bodies = unpacked(body)
        if found and len(found) + len(bodies) > MESSAGES:
            break
        found += [_Message(copy, index, each) for index, each in enumerate(bodies)]
    return found
