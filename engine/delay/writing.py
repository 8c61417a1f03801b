"""Appending to a shard's buckets: which ledger is written, when a new one is begun, and what became of each record.

The writer's rule: a ledger that was fenced, or whose answer was lost, is recovered, which tells what of it was written;
the rest goes to a new one, as long as the epoch holds. A store that repairs itself fences ledgers of writers that are
well (BookKeeper's auto-recovery does so 30 s after it has lost a bookie), so a fence alone says nothing of the shard's
owner: the epoch does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.core.errors import OutcomeUnknown, Unavailable
from engine.delay.book import ShardBook
from engine.delay.errors import LedgerClosed, LedgerFenced, NoSuchLedger
from engine.delay.ledgers.contract import AppendOutcome, LedgerAbout, LedgerInfo, LedgerStore
from engine.delay.ledgers.metadata import LedgerKind, LedgerRef, Refs
from engine.delay.levels import TimeBucket
from engine.delay.records import Packed, RecordKind, entries_of, entry_of, records_of, span_of

#: How often what a fence kept out is sent to a new ledger before its writer is told that nobody knows.
ROUNDS = 4
#: A ledger with so many bytes gets no more: it is what a cascade may have to sort at once.
ROLL_BYTES = 64 << 20


class WriteLane(NamedTuple):
    """Where records go that belong together."""

    bucket: TimeBucket
    kind: LedgerKind = LedgerKind.WRITE


#: Is told the lane and number of a ledger that was begun.
Made = Callable[[WriteLane, int], None]


@dataclass(slots=True)
class OpenLedger:
    """A ledger that this owner writes, and what is acknowledged of it."""

    id: int
    lane: WriteLane
    entries: int = 0
    messages: int = 0
    tombstones: int = 0
    length: int = 0

    def ref(self, *, sealed: bool) -> LedgerRef:
        return LedgerRef(self.id, self.lane.kind, sealed, self.messages, self.tombstones, self.length)

    def acknowledge(self, records: Sequence[Packed], length: int) -> None:
        tombstones = sum(record.kind is RecordKind.TOMBSTONE for record in records)
        self.entries += 1
        self.messages += len(records) - tombstones
        self.tombstones += tombstones
        self.length += length


@dataclass(slots=True)
class Written:
    """What became of the records of a call."""

    #: Acknowledged, in the lane and order in which they were given.
    acked: dict[WriteLane, list[Packed]] = field(default_factory=dict)
    #: They may be in a ledger.
    unknown: list[Packed] = field(default_factory=list)
    #: They are in none.
    failed: list[Packed] = field(default_factory=list)
    error: Unavailable | None = None


class BucketWriters:
    """The ledgers of a shard that are being written. Not thread-safe.

    ``made`` is told of each ledger that is begun. What becomes known later of records that were unknown is told by
    :meth:`settle`.
    """

    def __init__(self, store: LedgerStore, book: ShardBook, made: Made, *, roll_bytes: int = ROLL_BYTES) -> None:
        self._store = store
        self._book = book
        self._made = made
        self._roll_bytes = roll_bytes
        self._open: dict[WriteLane, OpenLedger] = {}
        #: Whose last entries nobody knows: they are recovered before anything else is done with their buckets.
        self._suspect: list[OpenLedger] = []
        #: Closed, and not told to the book yet.
        self._closed: dict[int, OpenLedger] = {}

    def open_refs(self) -> dict[int, LedgerRef]:
        """What is known here of ledgers of which the book knows less."""
        known = [*self._open.values(), *self._suspect, *self._closed.values()]
        return {ledger.id: ledger.ref(sealed=ledger.id in self._closed) for ledger in known}

    def write(self, lots: Mapping[WriteLane, Sequence[Packed]], now_ms: int) -> Written:
        """Append ``lots``; never raises for the store's sake. Raises :class:`~engine.delay.errors.ShardLost`.

        The records of a lane that fit one entry are written all or none.
        """
        written = Written()
        # Entry by entry, for it is entries that are acknowledged.
        waiting = [(lane, batch) for lane, records in lots.items() for batch in entries_of(records)]
        for _ in range(ROUNDS):
            if not waiting:
                return written
            try:
                self._begin({lane for lane, _ in waiting}, now_ms)
                waiting = self._append(waiting, written)
            except Unavailable as error:
                # What was sent is dealt with where its outcome came: this was not.
                written.error = error
                break
        written.failed += [record for _, batch in waiting for record in batch]
        return written

    def _begin(self, lanes: set[WriteLane], now_ms: int) -> None:
        """Have an open ledger for each of them."""
        for lane in lanes:
            ledger = self._open.get(lane)
            if ledger is not None and ledger.length >= self._roll_bytes:
                self._close(ledger)
        missing = sorted(lanes - self._open.keys())
        if not missing:
            return
        epoch = self._book.epoch
        abouts = [LedgerAbout(epoch, *lane.bucket, lane.kind, now_ms) for lane in missing]
        made = [OpenLedger(number, lane) for number, lane in zip(self._store.create(abouts), missing, strict=True)]
        added: dict[TimeBucket, Refs] = {}
        for ledger in made:
            bucket = ledger.lane.bucket
            added[bucket] = (*added.get(bucket, ()), ledger.ref(sealed=False))
        # Before anything is in it: what is in a ledger that no bucket refers to is in nobody's reach.
        self._book.attach(added)
        for ledger in made:
            self._open[ledger.lane] = ledger
            self._made(ledger.lane, ledger.id)

    def _append(
        self, waiting: Sequence[tuple[WriteLane, list[Packed]]], written: Written
    ) -> list[tuple[WriteLane, list[Packed]]]:
        """Send what waits: what is left of it, for another round."""
        batch = list(self._entries(waiting))
        try:
            outcomes: Sequence[AppendOutcome] = self._store.append(batch)
        except OutcomeUnknown as error:
            # Nobody knows of any: each ledger's recovery tells.
            outcomes = [error] * len(batch)
        ledgers = {lane: self._open[lane] for lane, _ in waiting}
        missed: dict[WriteLane, list[tuple[list[Packed], AppendOutcome]]] = {}
        for (lane, records), (_, entry), outcome in zip(waiting, batch, outcomes, strict=True):
            if isinstance(outcome, int):
                assert outcome == ledgers[lane].entries, "a store that numbers with gaps"
                ledgers[lane].acknowledge(records, len(entry))
                written.acked.setdefault(lane, []).extend(records)
            else:
                missed.setdefault(lane, []).append((records, outcome))
        left: list[tuple[WriteLane, list[Packed]]] = []
        for lane, entries in missed.items():
            left += [(lane, records) for records in self._recovered(ledgers[lane], entries, written)]
        return left

    def _entries(self, waiting: Iterable[tuple[WriteLane, list[Packed]]]) -> Iterable[tuple[int, bytes]]:
        counts: dict[WriteLane, tuple[int, int]] = {}
        for lane, records in waiting:
            ledger = self._open[lane]
            messages, tombstones = counts.get(lane, (ledger.messages, ledger.tombstones))
            entry = entry_of(records, messages_before=messages, tombstones_before=tombstones)
            counts[lane] = span_of(entry)[1:3]
            yield ledger.id, entry

    def _recovered(
        self, ledger: OpenLedger, entries: Sequence[tuple[list[Packed], AppendOutcome]], written: Written
    ) -> list[list[Packed]]:
        """Learn what of ``entries``, the last sent to it, is in a ledger: those that are not."""
        del self._open[ledger.lane]
        for _, outcome in entries:
            # Otherwise what happened has no place in the contract, and nobody should go on as if it had.
            if not isinstance(outcome, Unavailable | LedgerFenced | LedgerClosed | NoSuchLedger):
                raise AssertionError(f"an append was answered by {outcome!r}")
        try:
            self._book.insist_ours()
            (info,) = self._store.recover([ledger.id])
        except Unavailable as error:
            written.unknown += [record for records, _ in entries for record in records]
            written.error = OutcomeUnknown(
                f"Whether ledger {ledger.id} has its last records is not known: {error.what}", remedy=error.remedy
            )
            self._suspect.append(ledger)
            return []
        self._closed[ledger.id] = ledger
        there = info.last + 1 - ledger.entries
        for records, _ in entries[:there]:
            ledger.acknowledge(records, 0)
            written.acked.setdefault(ledger.lane, []).extend(records)
        ledger.length = info.length
        return [records for records, _ in entries[there:]]

    def settle(self) -> Iterator[tuple[int, Packed]]:
        """Recover what is suspect: records that were told as unknown, and turn out to be in the ledger given with each.

        Raises ``Unavailable`` where the store still is away, and ``ShardLost``: what came before that is settled.
        """
        while self._suspect:
            ledger = self._suspect[0]
            self._book.insist_ours()
            try:
                (info,) = self._store.recover([ledger.id])
                late = list(read_from(self._store, ledger.id, ledger.entries))
            except NoSuchLedger:
                # Its bucket was emptied by what had nothing to wait for.
                self._suspect.pop(0)
                continue
            entries = [records_of(entry) for entry in late]
            for records in entries:
                ledger.acknowledge(records, 0)
            ledger.length = info.length
            self._closed[ledger.id] = self._suspect.pop(0)
            for records in entries:
                yield from ((ledger.id, record) for record in records)

    def lanes(self) -> list[WriteLane]:
        """Those that are being written."""
        return list(self._open)

    def close(self, lanes: Iterable[WriteLane]) -> None:
        """Nothing more comes to them. Raises ``Unavailable``."""
        for lane in lanes:
            if lane in self._open:
                self._close(self._open[lane])

    def close_all(self) -> None:
        """All of them, told to the book: an orderly end. Raises ``Unavailable``."""
        self.close(self.lanes())
        self.tell()

    def _close(self, ledger: OpenLedger) -> None:
        self._store.close([ledger.id])
        del self._open[ledger.lane]
        self._closed[ledger.id] = ledger

    def tell(self) -> None:
        """Have the book know what was closed. Raises ``Unavailable``."""
        if not self._closed:
            return
        sealed: dict[TimeBucket, dict[int, LedgerRef]] = {}
        for ledger in self._closed.values():
            sealed.setdefault(ledger.lane.bucket, {})[ledger.id] = ledger.ref(sealed=True)
        self._book.seal(sealed)
        self._closed.clear()

    def forget(self, bucket: TimeBucket) -> None:
        """It is no more."""
        for lane in [lane for lane in self._open if lane.bucket == bucket]:
            del self._open[lane]
        self._suspect = [ledger for ledger in self._suspect if ledger.lane.bucket != bucket]
        self._closed = {number: each for number, each in self._closed.items() if each.lane.bucket != bucket}


def read_from(store: LedgerStore, ledger: int, first: int = 0) -> Iterable[bytes]:
    """Entries of a ledger from number ``first`` on, to its end as of now, a page at a time."""
    while page := store.read(ledger, first):
        yield from page
        first += len(page)


def sealed_ref(store: LedgerStore, kind: LedgerKind, info: LedgerInfo) -> LedgerRef:
    """What a recovered ledger holds, as its last entry tells."""
    messages = tombstones = 0
    if info.last >= 0:
        (entry,) = store.read(info.id, info.last)
        _, messages, tombstones, *_ = span_of(entry)
    return LedgerRef(info.id, kind, True, messages, tombstones, info.length)
