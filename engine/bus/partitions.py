"""Partitions: how a topic that is ordered by key is split, read by several consumers, and put in order again.

A message's partition follows from its key alone, so all messages of a key lie in one partition; each partition of a
group is read by at most one consumer at a time, under a lease whose epoch the store checks with every write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from zlib import crc32

import msgspec

from engine.bus.transport import Lag, Receiver, Stored

#: The most partitions of a topic.
MOST_PARTITIONS = 256
#: What an ordered topic gets unless somebody asks for another number.
DEFAULT_PARTITIONS = 8


def partition_of(key: str, message_id: str, partitions: int) -> int:
    """Where a message belongs: CRC-32 of its key in UTF-8, modulo ``partitions``.

    A message without key is ordered after nothing, so its id spreads it. Part of the wire format: other languages
    must choose alike.
    """
    return crc32((key or message_id).encode()) % partitions if partitions > 1 else 0


def together(lags: Sequence[Lag]) -> Lag:
    """The lag of all partitions of a group."""
    if len(lags) == 1:
        return lags[0]
    waiting = [each.waiting for each in lags if each.waiting is not None]
    return Lag(
        waiting=sum(waiting) if len(waiting) == len(lags) else None,
        in_flight=sum(each.in_flight for each in lags),
        retrying=sum(each.retrying for each in lags),
        dead=sum(each.dead for each in lags),
        oldest_ms=min((each.oldest_ms for each in lags if each.oldest_ms is not None), default=None),
        paused=any(each.paused for each in lags),
        parked=sum(each.parked for each in lags),
        began_ms=max(each.began_ms for each in lags),
    )


class Turn(msgspec.Struct, frozen=True):
    """How a consumer stands among those of its group after one turn."""

    #: Consumers present, this one included when it wants partitions.
    members: int
    #: How many partitions are its due.
    share: int
    #: What it owns now: partition to epoch.
    owned: dict[int, int]


class Owned(msgspec.Struct, frozen=True):
    """One partition of a group: who owns it, since when, and how far it is."""

    partition: int
    #: Empty when nobody owns it now.
    consumer: str
    #: Grows with each new owner; 0 before the first.
    epoch: int
    #: Epoch ms of the last change of hands; 0 before the first.
    moved_ms: int
    #: Messages not settled, parked ones included; ``None`` when the store cannot tell.
    unsettled: int | None
    in_flight: int
    retrying: int
    parked: int
    oldest_ms: int | None


class Parked(msgspec.Struct, frozen=True):
    """A key that was set aside because its head failed for good."""

    key: str
    partition: int
    #: Where the head lies.
    position: str
    #: How many messages wait behind the decision, the head included.
    messages: int
    #: What the layer above recorded about the head's failure (JSON).
    record: bytes


@dataclass(frozen=True)
class Unparked:
    """What an operator's decision did: ``messages`` come again; ``head`` is what was retried, skipped or buried."""

    messages: int
    partition: int
    head: Stored | None


@runtime_checkable
class PartitionedReceiver(Receiver, Protocol):
    """One consumer's end of all partitions that it owns.

    :meth:`turn`, :meth:`keep_off` and :meth:`give_up` are called from one thread, the rest as of any receiver.
    ``receive`` reads only what is owned and not kept off, in the order of publishing within each partition: also what
    was released, is due again or was left by an owner before, whose leases end first. Settling and extending under an
    epoch that is no longer the partition's is refused.

    Much waits in hand behind others of its key. So a lease that ran out counts as a failed attempt where that was the
    first, which nobody announces, and otherwise only where it was said to begin.
    """

    def turn(self, *, sit: bool) -> Turn:
        """Show presence, renew what is owned, and claim of what nobody owns up to an equal share of live consumers.

        ``sit=False`` asks for no share. Raises ``Unavailable``, and ``GroupLost`` when a partition is not there.
        """
        ...

    def keep_off(self, partition: int) -> None:
        """Read this partition no more; what is in hand may still be settled."""
        ...

    def give_up(self, partitions: Sequence[int]) -> None:
        """Let others have these at once. Give up only what nothing is in hand of. Raises ``Unavailable``."""
        ...

    def rest(self, partitions: frozenset[int]) -> None:
        """Leave these out of what ``receive`` reads, until told otherwise; replaces what was told before."""
        ...

    def is_parked(self, partition: int, key: str) -> bool:
        """Whether deliveries of ``key`` from this partition are to be set aside, as far as the last ``receive`` of it
        has told. In another partition the same key, which only foreign writers put there, is parked by itself."""
        ...


@runtime_checkable
class Partitioned(Protocol):
    """What a transport with :attr:`Capabilities.partitions` offers beside :class:`Transport`. Thread-safe.

    All methods raise ``Unavailable``, those about a group ``GroupLost``.
    """

    def partitioned_receiver(
        self, topic: str, group: str, *, consumer: str, lease_ms: int, partitions: int, seat_ms: int
    ) -> PartitionedReceiver:
        """Open one consumer's end; ``seat_ms`` is how long presence and ownership last without a turn."""
        ...

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Make a topic of so many partitions with all its groups. Never fewer than it has; raises ``BadInput``."""
        ...

    def partitions(self, topic: str) -> int:
        """How many it has; 1 unless it was told otherwise."""
        ...

    def owners(self, topic: str, group: str) -> list[Owned]:
        """All partitions of a group."""
        ...

    def parked(
        self, topic: str, group: str, limit: int = 100, key: str | None = None, head: str | None = None
    ) -> list[Parked]:
        """Keys that were set aside, by key, or this one alone; what was in several partitions is there for each.

        ``head``: the one whose head lies there, if any; also where the text is no position.
        """
        ...

    def set_aside(self, topic: str, group: str, key: str, limit: int = 100) -> list[Stored]:
        """The first messages of a parked key, its head first."""
        ...

    def unpark(
        self,
        topic: str,
        group: str,
        key: str,
        head: str,
        partition: int | None = None,
        *,
        seen: Parked | None = None,
    ) -> Unparked | None:
        """End the parking of ``key`` in this partition, or in the first where it is parked; ``None`` when it is not.

        ``seen``: that one as :meth:`parked` has told of it, and no other. Where its head has changed or its record has,
        somebody has decided meanwhile and the key was parked again: ``None``, and nothing is done.

        ``head`` is ``retry`` (its attempts begin anew), ``skip`` (settled unhandled) or ``dead`` (to the dead letters
        with its record). Everything behind it is delivered, in order.
        """
        ...
