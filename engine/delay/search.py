"""Finding messages that wait: by reading the buckets that may have them.

There is no index. One in memory would cost what the service exists to spare, and one on disk would have to be written
with every message and thinned with every one that is handed over, for a question that is asked of few. The price is
paid by who asks: to find a message by its handle reads the buckets of its due time (at most four; an entry is decoded
only if its spans of due times and sequences allow it), and by a client's key or a message's id all buckets of the span
of due times given, or all there are; the shard does nothing else meanwhile. Whoever must know places by key in
milliseconds keeps the handles that scheduling returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from engine.delay.ledgers.contract import LedgerStore
from engine.delay.ledgers.metadata import LedgerKind, Refs
from engine.delay.levels import TimeBucket
from engine.delay.records import Packed, PendingMessage, RecordKind, records_of, span_of
from engine.delay.writing import read_from


class DelayHandle(NamedTuple):
    """What names a message that waits: which shard has it, when it is due, and its sequence there.

    A reschedule gives another.
    """

    shard: str
    due_ms: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.shard}:{self.due_ms}:{self.sequence}"


def parse_handle(text: str) -> DelayHandle:
    """Raises ``ValueError`` for what no handle is written as."""
    shard, due_ms, sequence = text.rsplit(":", 2)
    if not shard or not (due_ms.isascii() and due_ms.isdigit() and sequence.isascii() and sequence.isdigit()):
        raise ValueError(f"{text!r} is no handle of a delayed message")
    return DelayHandle(shard, int(due_ms), int(sequence))


class WantedMessages(NamedTuple):
    """What is looked for: any of these, due in this span."""

    sequences: frozenset[int] = frozenset()
    keys: frozenset[str] = frozenset()
    message_ids: frozenset[str] = frozenset()
    #: Or whatever this says yes to, for acts on many.
    matches: Callable[[PendingMessage], bool] | None = None
    due_from_ms: int = 0
    #: Up to and with it.
    due_to_ms: int = (1 << 63) - 1

    def may_be_in(self, bucket: TimeBucket) -> bool:
        """Minutes may have what was overdue, of any due time before."""
        overdue = bucket.level == 0
        return bucket.end_ms > self.due_from_ms and (overdue or bucket.start_ms <= self.due_to_ms)

    def finds(self, record: Packed) -> bool:
        if not self.due_from_ms <= record.due_ms <= self.due_to_ms:
            return False
        if record.sequence in self.sequences:
            return True
        if not self.keys and not self.message_ids and self.matches is None:
            return False
        message = record.message()
        return (
            message.key in self.keys
            or message.message_id in self.message_ids
            or (self.matches is not None and self.matches(message))
        )

    @property
    def by_sequence_alone(self) -> bool:
        return not self.keys and not self.message_ids and self.matches is None


def wanted_of(handles: Iterable[DelayHandle]) -> WantedMessages:
    """What these name."""
    asked = list(handles)
    dues = [each.due_ms for each in asked]
    return WantedMessages(frozenset(each.sequence for each in asked), due_from_ms=min(dues), due_to_ms=max(dues))


class WaitingMessages:
    """What is found among ledgers, less what tombstones among them end. Not thread-safe."""

    def __init__(self, store: LedgerStore, wanted: WantedMessages) -> None:
        self._store = store
        self._wanted = wanted
        self._found: dict[int, Packed] = {}
        self._ended: dict[int, int] = {}

    def look_through(self, buckets: Mapping[TimeBucket, Refs]) -> None:
        """Read those that may have it. Raises ``Unavailable``."""
        for bucket, refs in buckets.items():
            if self._wanted.may_be_in(bucket):
                for ref in refs:
                    if ref.kind is not LedgerKind.DISPATCH:
                        self.look_in(ref.id)

    def look_in(self, ledger: int) -> None:
        wanted = self._wanted
        lowest, highest = min(wanted.sequences, default=0), max(wanted.sequences, default=0)
        for entry in read_from(self._store, ledger):
            span = span_of(entry)
            if span.due_to_ms < wanted.due_from_ms or span.due_from_ms > wanted.due_to_ms:
                continue
            if wanted.by_sequence_alone and (span.sequence_to < lowest or span.sequence_from > highest):
                continue
            for record in records_of(entry):
                self._see(record)

    def _see(self, record: Packed) -> None:
        if record.kind is RecordKind.TOMBSTONE:
            self._ended[record.sequence] = max(record.version, self._ended.get(record.sequence, -1))
        elif self._wanted.finds(record):
            known = self._found.get(record.sequence)
            if known is None or known.version < record.version:
                self._found[record.sequence] = record

    def alive(self) -> list[Packed]:
        """By due time."""
        ended = self._ended
        return sorted(record for number, record in self._found.items() if ended.get(number, -1) < record.version)
