"""What a shard answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from engine.core.errors import HbusError
from engine.delay.cascade import CHUNK_BYTES
from engine.delay.ledgers.metadata import LedgerKind
from engine.delay.levels import DEFAULT_HORIZON_MS, MINUTE_MS, TimeBucket, Watermarks
from engine.delay.near import TakenMessage
from engine.delay.search import DelayHandle
from engine.delay.writing import ROLL_BYTES


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """How a shard goes about its work."""

    #: The furthest due time that is taken.
    horizon_ms: int = DEFAULT_HORIZON_MS
    #: What is due within a tick is handed over at its end.
    tick_ms: int = 10
    #: How long before its beginning a minute is loaded.
    lead_ms: int = MINUTE_MS
    #: What a cascade sorts at once, in bytes of memory.
    chunk_bytes: int = CHUNK_BYTES
    #: When a ledger that is written gets no more.
    roll_bytes: int = ROLL_BYTES
    #: What of a minute is loaded unsorted; more is sorted into runs first.
    load_bytes: int = 4 << 20
    #: The most messages that are handed over and not confirmed.
    in_flight: int = 10_000
    #: The steps of cascades that one tick takes; each reads or writes an entry.
    steps: int = 4


class AddStatus(StrEnum):
    #: Durable: it will be handed over.
    KEPT = "kept"
    #: It was not taken, for certain.
    FAILED = "failed"
    #: The store's answer was lost: it may be handed over.
    UNKNOWN = "unknown"


class AddOutcome(NamedTuple):
    status: AddStatus
    #: Also of one that is unknown, should it be there.
    handle: DelayHandle | None = None
    error: HbusError | None = None


class CancelStatus(StrEnum):
    """What became of a cancellation, or of a reschedule."""

    #: It will not be handed over, or not at that time: durable.
    CANCELLED = "cancelled"
    #: It was handed over, or is being published at this moment; or was due before this owner came, and the one before
    #: may have published it. It arrives.
    DISPATCHED = "already dispatched"
    #: Nothing waits under this handle: it was handed over some minutes ago, or cancelled or rescheduled before, or was
    #: never here.
    UNKNOWN = "unknown"
    #: The store did not answer: it may or may not be handed over. Ask again.
    IN_DOUBT = "in doubt"


class RescheduleOutcome(NamedTuple):
    status: CancelStatus
    #: By which it is to be named from now on, where it was rescheduled.
    handle: DelayHandle | None = None


class Handed(NamedTuple):
    """What is to be published now."""

    messages: list[TakenMessage]
    #: Whether there is more to be done at once; the next tick need not wait.
    busy: bool


class BucketLook(NamedTuple):
    bucket: TimeBucket
    #: Messages that wait in it. A message and the tombstone that ends it may lie in two buckets: all of a shard's
    #: buckets together are exact.
    pending: int
    ledgers: int
    length: int
    closed: bool
    loaded: bool


class CascadeLook(NamedTuple):
    bucket: TimeBucket
    #: When it begins, or began.
    begins_ms: int
    #: By when it should have ended.
    deadline_ms: int
    running: bool
    attempt: int


class LedgerLook(NamedTuple):
    id: int
    bucket: TimeBucket
    kind: LedgerKind
    sealed: bool
    messages: int
    tombstones: int
    length: int


@dataclass(frozen=True, slots=True)
class ShardLook:
    """A shard as a console shows it. Made from memory: it asks the store nothing."""

    shard: str
    epoch: int
    now_ms: int
    marks: Watermarks
    pending: int
    in_flight: int
    #: How late the earliest message is that waits and is loaded.
    lag_ms: int
    #: By due time.
    buckets: list[BucketLook] = field(default_factory=list)
    #: The next first.
    cascades: list[CascadeLook] = field(default_factory=list)
    ledgers: list[LedgerLook] = field(default_factory=list)
