"""What a memory transport shares between publishers, receivers and its admin side."""

from __future__ import annotations

import threading
from collections import defaultdict

from engine.bus.errors import GroupLost
from engine.bus.transport import DeadEntry
from engine.bus.transports.memory.group import Group
from engine.bus.transports.memory.log import TopicLog
from engine.core.clock import Clock, SystemClock

#: How often a waiting receiver looks at an injected clock, in seconds of real time.
INJECTED_POLL_S = 0.005


#: Dead letters of a group by partition and entry.
Graves = defaultdict[int, dict[str, DeadEntry]]


class Seats:
    """Who is present in a group, and who owns its partitions."""

    def __init__(self) -> None:
        #: Consumer -> until when it counts as present.
        self.members: dict[str, int] = {}
        #: Partition -> epoch, since, until (0: given up), consumer.
        self.owners: dict[int, tuple[int, int, int, str]] = {}


class MemoryTopic:
    """A log and the groups that read it, each in as many parts as the log has partitions."""

    def __init__(self) -> None:
        self.log = TopicLog()
        self.partitions = 1
        self.groups: dict[str, list[Group]] = {}
        self.seats: defaultdict[str, Seats] = defaultdict(Seats)

    def make_group(self, name: str, start: str, graves: Graves) -> bool:
        """Make the parts of a group that are not there; whether there were any."""
        self.log.split(self.partitions)
        parts = self.groups.setdefault(name, [])
        missing = range(len(parts), self.partitions)
        parts += [Group(self.log, start, graves[partition], partition) for partition in missing]
        return bool(missing)


class MemoryStore:
    """Hold :attr:`changed` while touching anything; notify it after a change that a receiver may wait for."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.changed = threading.Condition()
        #: By name; made by being asked for.
        self.topics: defaultdict[str, MemoryTopic] = defaultdict(MemoryTopic)
        #: By topic and group, which they outlive.
        self.graves: defaultdict[tuple[str, str], Graves] = defaultdict(lambda: defaultdict(dict))

    def group(self, topic: str, group: str) -> list[Group]:
        """Its parts, by partition; raises :class:`GroupLost` when it is not there."""
        found = self.topics.get(topic)
        if found is None or group not in found.groups:
            raise GroupLost(
                f"There is no group {group!r} on topic {topic!r}.", remedy="Make it at the last position recorded."
            )
        return found.groups[group]


def patience(clock: Clock, due_ms: int | None, now_ms: int, left_s: float) -> float:
    """Seconds to wait before looking again."""
    if not isinstance(clock, SystemClock):
        return min(left_s, INJECTED_POLL_S)
    return left_s if due_ms is None else min(left_s, max(0.001, (due_ms - now_ms) / 1000))
