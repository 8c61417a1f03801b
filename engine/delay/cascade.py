"""Copying a bucket into the level below, or sorting a minute: close, copy, acknowledge and close, commit, delete.

The one commit is what counts. Killed before it, nothing has happened but ledgers that no bucket refers to, which are
collected; killed after it, sources are left that no bucket refers to. So nothing is lost and nothing doubled, and no
step has to find out whether it was done before. The order is the whole of it: what is deleted first, or in two commits,
is lost or doubled by a death in between.

Memory: one chunk of records. Each chunk goes to each bucket it has something for as one ledger sorted by due time (a
*run*), tombstones first, so that a minute can be merged from its runs however many messages it has.

A tombstone that meets its message ends both; one that does not is carried down to where its message went, or will go.
Nothing is dropped for being overdue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from heapq import merge
from typing import NamedTuple

from engine.core.errors import HbusError
from engine.delay.book import ShardBook
from engine.delay.leavings import Leavings
from engine.delay.ledgers.contract import LedgerAbout, LedgerStore
from engine.delay.ledgers.metadata import LedgerKind, LedgerRef, Refs
from engine.delay.levels import TimeBucket
from engine.delay.records import Packed, RecordKind, entries_of, entry_of, records_of
from engine.delay.writing import read_from, sealed_ref

#: About as many bytes are sorted at once.
CHUNK_BYTES = 64 << 20
#: What a record takes in memory beside its bytes.
RECORD_OVERHEAD = 120
#: The share of a bucket's length over which the beginnings of its cascades are spread.
SPREAD = 0.5

#: Where a record of this due time goes now.
Router = Callable[[int], TimeBucket]


class CascadePlan(NamedTuple):
    """What is to be copied, where to, and how."""

    source: TimeBucket
    route: Router
    #: Its ledgers but the dispatch logs. What comes to it meanwhile stays.
    refs: Refs
    #: For who looks at what an attempt has left behind.
    attempt: int
    chunk_bytes: int = CHUNK_BYTES


def begins_ms(bucket: TimeBucket, shard: str) -> int:
    """When its cascade begins: some time after it has closed, another time for each shard, so that they do not all turn
    the hour at once.
    """
    share = int.from_bytes(blake2b(shard.encode(), digest_size=4).digest()) / 2**32
    return bucket.closes_ms + int(share * SPREAD * bucket.level.size_ms)


class SourceTombstones:
    """The tombstones of a bucket, until each has met its message."""

    def __init__(self) -> None:
        #: The highest version that is ended, by sequence.
        self._ended: dict[int, int] = {}
        self._unmet: dict[tuple[int, int], Packed] = {}

    def collect(self, records: Iterable[Packed]) -> None:
        for record in records:
            if record.kind is RecordKind.TOMBSTONE:
                self._ended[record.sequence] = max(record.version, self._ended.get(record.sequence, -1))
                self._unmet[record.sequence, record.version] = record

    def end(self, message: Packed) -> bool:
        """Whether one of them ends it. Each goes with the message of its own version alone: those before may still be
        on their way from a bucket above, each with its own.
        """
        self._unmet.pop((message.sequence, message.version), None)
        return self._ended.get(message.sequence, -1) >= message.version

    def unmet(self) -> Iterable[Packed]:
        """Those whose messages are not in the source: they are carried to where these are, or will come."""
        return self._unmet.values()


class SortedChunk:
    """What is sorted at once, by where it goes. It is sorted in pieces, so that no step takes long."""

    def __init__(self) -> None:
        #: In bytes of memory, about.
        self.size = 0
        self._sorted: dict[TimeBucket, list[list[Packed]]] = {}
        self._fresh: dict[TimeBucket, list[Packed]] = {}

    def add(self, target: TimeBucket, record: Packed) -> None:
        self._fresh.setdefault(target, []).append(record)
        self.size += len(record.raw) + RECORD_OVERHEAD

    def sort(self) -> None:
        """Sort what was added since the last time."""
        for target, records in self._fresh.items():
            records.sort(key=_place_in_run)
            self._sorted.setdefault(target, []).append(records)
        self._fresh = {}

    def targets(self) -> list[TimeBucket]:
        return sorted(self._sorted)

    def merged(self, target: TimeBucket) -> Iterator[Packed]:
        """All of one target, in the order of a run."""
        return merge(*self._sorted[target], key=_place_in_run)


def _place_in_run(record: Packed) -> tuple[bool, Packed]:
    """Tombstones first, then by due time and sequence."""
    return record.kind is not RecordKind.TOMBSTONE, record


class Cascade:
    """One copying of a bucket. Not thread-safe."""

    def __init__(self, store: LedgerStore, book: ShardBook, leavings: Leavings, plan: CascadePlan) -> None:
        self._store = store
        self._book = book
        self._leavings = leavings
        self._plan = plan
        self._added: dict[TimeBucket, Refs] = {}
        #: Ledgers that it has made, which no bucket refers to before the commit.
        self.made: set[int] = set()

    @property
    def source(self) -> TimeBucket:
        return self._plan.source

    def steps(self, now_ms: int) -> Iterator[None]:
        """Do it, a step at a time: it may be left for good between any two. Raises what the store raises, and
        :class:`~engine.delay.errors.ShardLost`; it is to be begun anew then.
        """
        numbers = [ref.id for ref in self._plan.refs]
        infos = self._store.recover(numbers)
        refs = [
            ref if ref.sealed else sealed_ref(self._store, ref.kind, info)
            for ref, info in zip(self._plan.refs, infos, strict=True)
        ]
        yield
        tombstones = SourceTombstones()
        for ref in refs:
            if ref.tombstones:
                for entry in read_from(self._store, ref.id):
                    tombstones.collect(records_of(entry))
                    yield
        chunk = SortedChunk()
        for ref in refs:
            for entry in read_from(self._store, ref.id):
                for record in records_of(entry):
                    if record.kind is not RecordKind.MESSAGE or tombstones.end(record):
                        continue
                    chunk.add(self._plan.route(record.due_ms), record)
                chunk.sort()
                yield
                if chunk.size >= self._plan.chunk_bytes:
                    yield from self._write(chunk, now_ms)
                    chunk = SortedChunk()
        for record in tombstones.unmet():
            chunk.add(self._plan.route(record.due_ms), record)
        chunk.sort()
        if chunk.size:
            yield from self._write(chunk, now_ms)
        self._book.replace(self.source, frozenset(numbers), self._added)
        self._leavings.add(numbers)

    def _write(self, chunk: SortedChunk, now_ms: int) -> Iterator[None]:
        """One run for each bucket, closed."""
        targets = chunk.targets()
        epoch, source = self._book.epoch, f"{self.source}#{self._plan.attempt}"
        abouts = [LedgerAbout(epoch, *target, LedgerKind.RUN, now_ms, source) for target in targets]
        runs = self._store.create(abouts)
        self.made.update(runs)
        yield
        told: list[tuple[TimeBucket, int, int, int]] = []
        for target, run in zip(targets, runs, strict=True):
            messages = tombstones = 0
            for batch in entries_of(chunk.merged(target)):
                entry = entry_of(batch, messages_before=messages, tombstones_before=tombstones)
                (outcome,) = self._store.append([(run, entry)])
                if isinstance(outcome, HbusError):
                    # A run is written once: whatever befell it, another attempt makes another.
                    raise outcome
                ended = sum(record.kind is RecordKind.TOMBSTONE for record in batch)
                messages, tombstones = messages + len(batch) - ended, tombstones + ended
                yield
            told.append((target, run, messages, tombstones))
        for (target, run, messages, tombstones), info in zip(told, self._store.close(runs), strict=True):
            ref = LedgerRef(run, LedgerKind.RUN, True, messages, tombstones, info.length)
            self._added[target] = (*self._added.get(target, ()), ref)
        yield
