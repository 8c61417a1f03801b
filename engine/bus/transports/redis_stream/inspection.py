"""One consistent picture of a group, and what follows from it: lag and checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.bus.errors import GroupLost
from engine.bus.transport import Lag
from engine.bus.transports.redis_stream.browsing import count_ids
from engine.bus.transports.redis_stream.positions import of_entry
from engine.bus.transports.redis_stream.scripts import INSPECT_GROUP
from engine.bus.transports.redis_stream.topic import GroupKeys, StoreTime
from engine.core.store.failures import Refused
from engine.core.store.link import Link

#: How many entries are counted where the server cannot tell the lag itself; beyond that it is unknown.
COUNT_LIMIT = 100_000
# Redis 6.2 puts the name and the line of the script before the words of a command that failed in it.
_GROUP_LOST = re.compile(r"(?:(?:ERR )?Error running script .*user_script:\d+: )?(?:GROUPLOST|NOGROUP)\b")


def group_lost(group: str) -> GroupLost:
    """What to raise when the store does not know a group."""
    return GroupLost(
        f"The group {group!r} is not in the store: it was flushed, failed over or deleted.",
        remedy="Make it anew at the last position recorded, and look for what emptied the store.",
    )


def says_group_lost(error: Refused) -> bool:
    return bool(_GROUP_LOST.match(error.words))


class StreamState(NamedTuple):
    """Where a group stands on one stream; ids are empty where there is no such entry."""

    last_delivered: str
    #: Never handed out; ``None`` when the server cannot tell.
    lag: int | None
    oldest_pending: str
    oldest_new: str

    def settled_up_to(self, rank: int) -> str:
        """The largest id that has nothing unsettled before it or at it."""
        return of_entry(self.oldest_pending, rank).previous_id() if self.oldest_pending else self.last_delivered

    def oldest_ms(self) -> int | None:
        ids = [each for each in (self.oldest_pending, self.oldest_new) if each]
        return min(int(each.partition("-")[0]) for each in ids) if ids else None


class GroupState(NamedTuple):
    """A group as the store holds it."""

    paused: bool
    released: int
    live: int
    lapsed: int
    retrying: int
    parked: int
    dead: int
    #: Which life of the topic this is.
    incarnation: str
    #: By rank: high, normal, low.
    streams: tuple[StreamState, StreamState, StreamState]

    def settled_up_to(self) -> str:
        """Per stream, the id after which everything unsettled lies."""
        return ",".join(state.settled_up_to(rank) for rank, state in enumerate(self.streams))


def life_began_ms(incarnation: str) -> int:
    """When the store named it: seconds and, in the last five digits, microseconds."""
    try:
        return int(incarnation[:-5], 16) * 1000 + int(incarnation[-5:], 16) // 1000
    except ValueError:
        return 0


def inspect(link: Link, keys: GroupKeys, group: str, time: StoreTime) -> GroupState:
    """Raises :class:`GroupLost` when any part of the group is gone."""
    try:
        reply = link.run(INSPECT_GROUP, keys.inspect, (group, time.now()))
    except Refused as error:
        if says_group_lost(error):
            raise group_lost(group) from error
        raise
    return state_of(reply)


def state_of(reply: Sequence[Any]) -> GroupState:
    """What the script's answer says."""
    high, normal, low = (
        StreamState(last.decode(), lag if lag >= 0 else None, pending.decode(), new.decode())
        for last, lag, pending, new in reply[8:]
    )
    paused, released, live, lapsed, retrying, parked, dead, incarnation = reply[:8]
    return GroupState(
        bool(paused), released, live, lapsed, retrying, parked, dead, incarnation.decode(), (high, normal, low)
    )


def lag(link: Link, keys: GroupKeys, group: str, time: StoreTime) -> Lag:
    """The group's lag. Raises as :func:`inspect`."""
    return lag_of(link, keys, inspect(link, keys, group, time))


def lag_of(link: Link, keys: GroupKeys, state: GroupState) -> Lag:
    """Its lag; what was released unhandled counts as waiting, what a dead consumer held as retrying."""
    waiting: int | None = state.released
    for stream, at in zip(keys.streams, state.streams, strict=True):
        new = at.lag if at.lag is not None else count_ids(link, stream, f"({at.last_delivered}", limit=COUNT_LIMIT)
        waiting = None if waiting is None or new is None else waiting + new
    oldest = [ms for ms in (at.oldest_ms() for at in state.streams) if ms is not None]
    return Lag(
        waiting=waiting,
        in_flight=state.live,
        retrying=state.retrying + state.lapsed,
        dead=state.dead,
        oldest_ms=min(oldest) if oldest else None,
        paused=state.paused,
        parked=state.parked,
        began_ms=life_began_ms(state.incarnation),
    )


def checkpoint(states: Sequence[GroupState]) -> str:
    """The position after which everything lies that a group has not settled, in any partition."""
    return ";".join(state.settled_up_to() for state in states) + f",{states[0].incarnation}"
