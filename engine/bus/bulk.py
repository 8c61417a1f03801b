"""Publishing very many messages once: what a job of Spark writes, and a replay.

A *write* is a name that the caller keeps: what was stored under it is not stored under it again, however often the job
is run, and however it is cut. What makes two messages the same is their idempotency key, which belongs to the write
alone. Idempotency keys of single publishes remember a digest and a position each, which costs the store several times
what it costs to append; a write remembers that there was one, and no more.

Within one *run* of a write, *lanes* publish side by side. An ordering key belongs to the lane that named it first, so
that no two of them can mix up its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

import msgspec

from engine.bus.transport import Outgoing


class Lane(msgspec.Struct, frozen=True, gc=False):
    """One of those that publish a write together. Who tries again what another left begun takes its name."""

    #: The longest of the three names, in characters.
    LONGEST: ClassVar[int] = 200
    write: str
    run: str
    name: str
    #: For how long at least the store remembers what was written, from the last call on.
    window_ms: int


class Appended(msgspec.Struct, frozen=True, gc=False):
    """What became of a batch: the first so many of it are in the topic."""

    stored: int
    #: Stored under this write before, by whomever.
    known: int
    #: Why the next one was not stored, and none after it; empty where all are in the topic.
    error: str = ""
    #: What to do about that.
    remedy: str = ""

    @property
    def done(self) -> int:
        return self.stored + self.known


@runtime_checkable
class PublishesInBulk(Protocol):
    """A transport that can publish a write once. Thread-safe."""

    def publish_bulk(
        self, topic: str, lane: Lane, batch: Sequence[Outgoing], ordering_keys: Sequence[str] = ()
    ) -> Appended:
        """Append in order those of ``batch`` that are not stored under the write, up to the first that is refused.

        Each has an idempotency key; digests and windows are not looked at. ``ordering_keys`` are as many: what each
        message names for its lane, empty for none. Naming a key again costs as much as the first time, and is only
        needed once a lane.

        Two that publish the same messages in the same order leave them in that order, whatever of their calls comes
        first. Raises :class:`~engine.bus.errors.KeyOfAnotherLane`, and ``Unavailable`` when nobody knows how much of it
        was stored: calling again with the same is safe.
        """
        ...
