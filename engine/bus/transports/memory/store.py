"""What a memory transport shares between publishers, receivers and its admin side."""

from __future__ import annotations

import threading

from engine.bus.errors import GroupLost
from engine.bus.transports.memory.group import Group
from engine.bus.transports.memory.log import TopicLog
from engine.core.clock import Clock


class MemoryTopic:
    """A log and the groups that read it."""

    def __init__(self) -> None:
        self.log = TopicLog()
        self.groups: dict[str, Group] = {}


class MemoryStore:
    """Hold :attr:`changed` while touching anything; notify it after a change that a receiver may wait for."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.changed = threading.Condition()
        self.topics: dict[str, MemoryTopic] = {}

    def topic(self, name: str) -> MemoryTopic:
        """The topic, made if need be."""
        return self.topics.setdefault(name, MemoryTopic())

    def group(self, topic: str, group: str) -> Group:
        """Raises :class:`GroupLost` when it is not there."""
        found = self.topics.get(topic)
        if found is None or group not in found.groups:
            raise GroupLost(
                f"There is no group {group!r} on topic {topic!r}.", remedy="Make it at the last position recorded."
            )
        return found.groups[group]
