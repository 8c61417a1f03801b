"""Reading a topic over again, log by log: what an archive, an audit and a Spark job stand on.

A log is one order of appending: of a topic each priority of each partition. Places in a log are opaque texts that the
transport made; the empty one lies before everything. Nothing is claimed, leased or moved by any of it, and a stretch
between two places is the same however often it is read, but for what retention took away: how much that is follows from
how many messages the log was ever given (:func:`gone`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec


class Extent(msgspec.Struct, frozen=True, gc=False):
    """Where one log ends, as it was at one moment."""

    log: str
    #: Another one once the store was emptied or the topic made anew; empty where nobody knows.
    life: str
    #: The place of the last message it was ever given; empty when there was none.
    last: str
    #: How many messages it was ever given; ``None`` where the store does not count them.
    added: int | None
    #: How many it holds.
    held: int
    #: The place of the oldest that it holds; empty when it holds none.
    first: str
    #: When that one was appended, epoch milliseconds.
    first_ms: int = 0
    #: And the last.
    last_ms: int = 0


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """Messages of one log that follow each other, as columns of one length."""

    positions: Sequence[str]
    #: When each was appended, epoch milliseconds; never falls within a log.
    at_ms: Sequence[int]
    bodies: Sequence[bytes]
    #: Whether no more of it lies behind the last.
    ended: bool


@runtime_checkable
class Rereads(Protocol):
    """An admin side whose topics can be read over again. Thread-safe.

    Each call raises ``Unavailable``, and ``BadInput`` for a log or a place that is none.
    """

    def extents(self, topic: str) -> list[Extent]:
        """All logs of the topic, in an order that stays; one that was never written to may be left out."""
        ...

    def stretch(self, topic: str, log: str, after: str, *, upto: str, limit: int) -> Stretch:
        """What lies after ``after`` and not after ``upto``, oldest first: at least one where there is one, at most
        ``limit``, and fewer of large ones."""
        ...

    def nth_after(self, topic: str, log: str, after: str, *, upto: str, number: int) -> tuple[str, int]:
        """The place of the ``number``-th message after ``after`` and not after ``upto``, or of the last there is, and
        how many lie up to it. ``(after, 0)`` where there is none. No body leaves the store for it."""
        ...

    def place_before(self, topic: str, log: str, at_ms: int) -> str:
        """A place that everything appended before that instant lies at or before, and all the rest after."""
        ...


def gone(extent: Extent, added_before: int | None) -> int | None:
    """How many messages the log has lost to retention that came after the first ``added_before``.

    ``None`` where the store does not count. What it tells is exact when retention takes the oldest, and never too small
    else.
    """
    if extent.added is None or added_before is None:
        return None
    return max(0, extent.added - extent.held - added_before)
