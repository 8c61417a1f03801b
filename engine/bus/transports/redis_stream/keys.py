"""Every key of the transport, made here and nowhere else; all keys of a topic share one hash tag."""

from __future__ import annotations

import re
from hashlib import blake2b

from engine.bus.transport import Priority
from engine.core.errors import BadInput

#: The streams of a topic in the order they are read; a message's rank is its index here plus one.
PRIORITIES = (Priority.HIGH, Priority.NORMAL, Priority.LOW)
#: Idempotency keys up to this length are readable in the store; longer ones are hashed.
READABLE_KEY = 120

#: Braces would end the hash tag early and scatter a topic over a cluster; blanks and control characters help nobody.
_NAME = re.compile(r"[^\s{}\x00-\x1f\x7f]{1,200}")


def checked(name: str, field: str) -> str:
    """``name`` if it may be part of a key; raises :class:`BadInput` naming ``field``."""
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot be the name of a {field}.",
            remedy="Use 1 to 200 characters without blanks and braces.",
            field=field,
        )
    return name


class TopicKeys:
    """The keys of one topic: three streams a partition, its statistics, its idempotency keys.

    Partition 0 has the names of a topic that knows no partitions, so that one may get more of them later.
    """

    def __init__(self, prefix: str, topic: str, partition: int = 0) -> None:
        self._root = f"{prefix}:{{{checked(topic, 'topic')}}}"
        self.partition = partition
        self._place = f"{self._root}:p{partition}" if partition else self._root
        self.streams = tuple(f"{self._place}:{priority}" for priority in PRIORITIES)
        self.stats = f"{self._root}:stats"
        #: What a publish without idempotency keys touches.
        self.publish = (*self.streams, self.stats)
        #: And one that asks for nothing else, either.
        self.append = (self.stream_of(partition), self.stats)

    def stream_of(self, partition: int) -> str:
        """Where messages of a partition go: they are ordered, so they have one priority."""
        return f"{self._root}:p{partition}:{Priority.NORMAL}" if partition else f"{self._root}:{Priority.NORMAL}"

    def idempotency(self, key: str) -> str:
        """Where an idempotency key is remembered."""
        if len(key) <= READABLE_KEY:
            return f"{self._root}:idem:{key}"
        return f"{self._root}:idem#{blake2b(key.encode(), digest_size=20).hexdigest()}"

    @property
    def idempotency_pattern(self) -> str:
        """Matches every idempotency key of the topic, for SCAN."""
        return re.sub(r"([\\*?\[\]^])", r"\\\1", f"{self._root}:idem") + "[:#]*"

    def group(self, group: str) -> GroupKeys:
        """The keys of a group's part in this partition."""
        return GroupKeys(self, f"{self._place}:group:{checked(group, 'group')}")

    def seats(self, group: str) -> SeatKeys:
        """The keys of what concerns a group's partitions together."""
        return SeatKeys(f"{self._root}:group:{checked(group, 'group')}")


class GroupKeys:
    """The keys of one group in one partition; ``lua/common.lua`` says what they hold."""

    def __init__(self, topic: TopicKeys, root: str) -> None:
        self.partition = topic.partition
        self.streams = topic.streams
        self.leases = f"{root}:leases"
        self.tries = f"{root}:tries"
        self.state = f"{root}:state"
        self.wake = f"{root}:wake"
        self.dead = f"{root}:dead"
        self.parked = f"{root}:parked"
        self.aside = f"{root}:aside"
        self.receive = (*self.streams, self.leases, self.tries, self.state, self.wake)
        self.settle = (*self.receive, self.dead, self.parked, self.aside)
        self.extend = (*self.streams, self.leases, self.state)
        self.inspect = (*self.extend, self.dead, topic.stats)
        self.own = (self.leases, self.tries, self.state, self.wake, self.dead, self.parked, self.aside)
        self.place = (*self.settle, topic.stats)


class SeatKeys:
    """Who reads the partitions of one group: the consumers present, and the owner of each partition."""

    def __init__(self, root: str) -> None:
        self.members = f"{root}:members"
        self.owners = f"{root}:owners"
        self.own = (self.members, self.owners)
