"""Going over the copies of what was published, behind the consumers: what nsqd has lost is handed out from its copy."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from engine.bus.transports.nsq.copies import unpacked
from engine.bus.transports.nsq.http import ANSWER_TIMEOUT_S
from engine.bus.transports.nsq.names import GroupNames, copy_id, digest_of, first_id, published_ms, released_score
from engine.bus.transports.nsq.nodes import Nodes
from engine.bus.transports.nsq.side_store import SideStore

#: A copy younger than this, in ms, is left alone: its message is on its way.
YOUNG_MS = 2_000
#: By so much, in ms, the clocks of nsqd and store may differ. Beyond that what nsqd still has may be taken for lost:
#: its copy is handed out, and what comes from nsqd later is finished unseen.
APART_MS = 2_000
#: So long, in ms, what an nsqd took again after a lease ran out may come behind what it took then. A stock nsqd hands
#: out what it has in memory and what lies on its disk in no order.
BEHIND_MS = 30_000
#: Later than anything: of an nsqd that holds nothing.
NEVER_MS = 1 << 50
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

    def turn(self, newest: Mapping[str, str]) -> None:
        """Go over what is next, if it is time; costs nothing most of the time.

        ``newest`` is how far each nsqd is known to have come, see :attr:`~.inflow.Inflow.newest`. Raises
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
            going_on = self._go_over(cursor, *_messages(cursor, copies), newest) and bool(copies)
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

    def _go_over(self, cursor: str, messages: Sequence[_Message], last: str, newest: Mapping[str, str]) -> bool:
        """Whether the group has come further. ``last``: the copy up to which these ``messages`` are all there are."""
        reply = self._run(cursor, last, [each.args(whole=False) for each in messages])
        if reply[0] == b"wanted":
            in_hand, unknown = ({number - 1 for number in numbers} for numbers in reply[1:])
            if len(before := self._before_what_waits(messages, unknown, newest)) < len(messages):
                messages, last = before, before[-1].copy if before else cursor
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
            self._tell_vanished(last, newest)
        return last != cursor

    def _tell_vanished(self, cursor: str, newest: Mapping[str, str]) -> None:
        """Somebody held them, nobody has them, and no nsqd sends them."""
        passed_ms = self._passed_ms(newest)
        gone_ms = passed_ms if passed_ms == NEVER_MS else passed_ms - BEHIND_MS
        reply = self._run(cursor, cursor, (), gone_ms)
        if reply[0] == b"done":
            self._vanished.extend(each.decode() for each in reply[2])

    def _before_what_waits(
        self, messages: Sequence[_Message], unknown: Collection[int], newest: Mapping[str, str]
    ) -> Sequence[_Message]:
        """Those whose copies come before the first of which nsqd may still have a message.

        What is taken for lost most likely is; should it come after all, nobody gets it twice.
        """
        if not unknown:
            return messages
        edge_ms = self._passed_ms(newest, messages[max(unknown)].at_ms + APART_MS) - APART_MS
        waits = min((index for index in unknown if messages[index].at_ms >= edge_ms), default=None)
        if waits is None:
            return messages
        return [each for each in messages[:waits] if each.copy != messages[waits].copy]

    def _passed_ms(self, newest: Mapping[str, str], enough_ms: int = NEVER_MS) -> int:
        """All nsqds have sent what they took before this millisecond, as it seems. They are asked what they hold unless
        ``newest`` tells that they have gone beyond ``enough_ms``."""
        told = {name: published_ms(each) for name, each in newest.items()}
        nodes = self._nodes.all()
        passed_ms = min((told.get(node.name, 0) for node in nodes), default=0)
        if passed_ms > enough_ms:
            return passed_ms
        held = self._nodes.held_for(self._names.topic.nsq, self._names.channel)
        if held is None:
            return passed_ms
        return min((told.get(name, 0) if number else NEVER_MS for name, number in held.items()), default=0)

    def _run(self, cursor: str, last: str, messages: Sequence[tuple[str | bytes, ...]], gone_ms: int = 0) -> Any:
        names = self._names
        # What nsqd took before has its copy, if it has one, among those gone over.
        behind = first_id(int(last.partition("-")[0]) - TAKEN_MS)
        args: list[str | int | bytes] = [names.channel, cursor, last, gone_ms, behind, self._scan, LATE_MS]
        for each in messages:
            args += each
        return self._side_store.run("sweep", names.sweep, args, group=names.channel)

    @property
    def _where(self) -> str:
        return f"{self._names.topic.nsq}/{self._names.channel}"


def _messages(cursor: str, copies: Sequence[tuple[str, bytes]]) -> tuple[list[_Message], str]:
    """Of as many whole copies as one call is about, of one at least; and the last of these, ``cursor`` for none."""
    found: list[_Message] = []
    last = cursor
    for copy, body in copies:
        bodies = unpacked(body)
        if found and len(found) + len(bodies) > MESSAGES:
            break
        if not bodies:
            _log.warning("the copy %s of %d bytes was made by nobody here, and is passed over", copy, len(body))
        found += [_Message(copy, index, each) for index, each in enumerate(bodies)]
        last = copy
    return found, last
