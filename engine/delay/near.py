"""The near term: the minutes that are about to be handed over, merged in memory by due time.

A minute's ledgers are read through cursors, each with one page of read-ahead, so that a minute with a million messages
takes the memory of its runs' pages; what comes for a minute that is loaded goes to a ledger, and into the heap once it
is acknowledged. The order is that of due times, then of sequences.

What is to be known of each message of a loaded minute is kept as numbers: which were handed over, and which a tombstone
ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.core.errors import Unavailable
from engine.delay.ledgers.contract import LedgerStore
from engine.delay.levels import minute_bucket
from engine.delay.records import Packed, RecordKind, records_of


class RunCursor:
    """Reads a ledger's records in the order in which they lie there, a page ahead."""

    def __init__(self, store: LedgerStore, ledger: int) -> None:
        self._store = store
        self._ledger = ledger
        self._entry = 0
        self._page: list[bytes] = []
        self._records: list[Packed] = []

    def next(self) -> Packed | None:
        """The next record, or ``None`` at the end. Raises ``Unavailable``, and goes on from there when asked again."""
        while not self._records:
            if not self._page:
                self._page = self._store.read(self._ledger, self._entry)[::-1]
                if not self._page:
                    return None
            self._records = records_of(self._page[-1])[::-1]
            self._page.pop()
            self._entry += 1
        return self._records.pop()


class SortedCursor:
    """Records that are in memory, by due time."""

    def __init__(self, records: Iterable[Packed]) -> None:
        self._records = sorted(records, reverse=True)

    def next(self) -> Packed | None:
        return self._records.pop() if self._records else None


@dataclass(slots=True)
class LoadedMinute:
    """A minute whose messages are merged here."""

    number: int
    #: Ledgers whose records are here, or were.
    known: set[int] = field(default_factory=set)
    #: Sequences that were handed over, by this owner or one before: noted, or on the way.
    done: set[int] = field(default_factory=set)
    #: Those that are not noted yet.
    in_flight: set[int] = field(default_factory=set)
    #: What came since it was loaded, and waits.
    late: dict[int, Packed] = field(default_factory=dict)
    #: Sequences that a tombstone in one of its ledgers ends.
    killed: set[int] = field(default_factory=set)
    #: The latest due time of a message that one of these tombstones is about.
    killed_to_ms: int = -1
    #: Sequences of messages that lie in it, and were ended by a tombstone in whatever minute.
    ended: set[int] = field(default_factory=set)
    #: Cursors that are not at their end.
    cursors: int = 0

    @property
    def is_drained(self) -> bool:
        """Nothing in it waits, or is on the way."""
        return not self.cursors and not self.late and not self.in_flight


class TakenMessage(NamedTuple):
    """A message that is handed over, and the minute in whose dispatch log that is noted."""

    record: Packed
    minute: int


Source = RunCursor | SortedCursor | None
#: Due time, sequence, a number that no other has, the record, its minute, and whence the next one comes.
Head = tuple[int, int, int, Packed, LoadedMinute, Source]


class NearTerm:
    """The minutes up to :attr:`loaded_until`. Not thread-safe."""

    def __init__(self, loaded_until: int) -> None:
        #: The number of the last minute whose new messages come here.
        self.loaded_until = loaded_until
        self.minutes: dict[int, LoadedMinute] = {}
        self._heap: list[Head] = []
        self._pushed = 0
        #: By sequence, the highest version that is not to be handed over.
        self._killed: dict[int, int] = {}

    def minute(self, number: int) -> LoadedMinute:
        if number not in self.minutes:
            self.minutes[number] = LoadedMinute(number)
        return self.minutes[number]

    def open_run(self, number: int, store: LedgerStore, ledger: int) -> None:
        """Merge a sorted ledger into a minute. Raises ``Unavailable``, and nothing is merged then."""
        cursor = RunCursor(store, ledger)
        # Tombstones lead, and are known before any message of the ledger can be handed over.
        tombstones = []
        while (record := cursor.next()) is not None and record.kind is RecordKind.TOMBSTONE:
            tombstones.append(record)
        self._open(number, ledger, tombstones, record, cursor)

    def open_records(self, number: int, ledger: int, records: Sequence[Packed]) -> None:
        """Merge all of a ledger that is not sorted."""
        cursor = SortedCursor(record for record in records if record.kind is RecordKind.MESSAGE)
        tombstones = [record for record in records if record.kind is RecordKind.TOMBSTONE]
        self._open(number, ledger, tombstones, cursor.next(), cursor)

    def _open(
        self, number: int, ledger: int, tombstones: Sequence[Packed], first: Packed | None, cursor: Source
    ) -> None:
        minute = self.minute(number)
        minute.known.add(ledger)
        for record in tombstones:
            self.kill(number, record)
        if first is not None:
            minute.cursors += 1
            self._push(first, minute, cursor)

    def note_done(self, number: int, sequences: Iterable[int]) -> None:
        """These were handed over by an owner before."""
        self.minute(number).done.update(sequences)

    def add(self, number: int, record: Packed) -> None:
        """What was acknowledged after its minute was loaded."""
        minute = self.minute(number)
        minute.late[record.sequence] = record
        self._push(record, minute, None)

    def kill(self, number: int, of: Packed) -> None:
        """End a message up to a version, by a tombstone that lies in minute ``number``."""
        self._killed[of.sequence] = max(of.version, self._killed.get(of.sequence, -1))
        minute = self.minute(number)
        minute.killed.add(of.sequence)
        minute.killed_to_ms = max(minute.killed_to_ms, of.due_ms)
        for each in self.minutes.values():
            late = each.late.get(of.sequence)
            if late is not None and late.version <= of.version:
                del each.late[of.sequence]
                each.ended.add(of.sequence)

    def is_killed(self, record: Packed) -> bool:
        return self._killed.get(record.sequence, -1) >= record.version

    def is_done(self, sequence: int) -> bool:
        return any(sequence in minute.done for minute in self.minutes.values())

    def earliest_ms(self) -> int | None:
        """When the next one is due; it may be one that was handed over or cancelled."""
        return self._heap[0][0] if self._heap else None

    def take(self, until_ms: int, most: int) -> list[TakenMessage]:
        """Hand over what is due up to ``until_ms``, the earliest first, at most so many.

        Raises ``Unavailable`` where a cursor cannot go on, and nothing was taken before that.
        """
        taken: list[TakenMessage] = []
        heap = self._heap
        while heap and heap[0][0] <= until_ms and len(taken) < most:
            _, sequence, _, record, minute, source = heap[0]
            try:
                following = None if source is None else source.next()
            except Unavailable:
                # It stays at the head: the next call comes here again.
                if taken:
                    break
                raise
            if following is not None:
                self._pushed += 1
                head = following.due_ms, following.sequence, self._pushed, following, minute, source
                heapq.heapreplace(heap, head)
            else:
                heapq.heappop(heap)
                minute.cursors -= source is not None
            if source is None and minute.late.get(sequence) is record:
                del minute.late[sequence]
            elif source is None:
                # Ended meanwhile, or come a second time.
                continue
            if self.is_killed(record):
                minute.ended.add(sequence)
                continue
            if sequence in minute.done:
                continue
            minute.done.add(sequence)
            minute.in_flight.add(sequence)
            taken.append(TakenMessage(record, minute.number))
        return taken

    def noted(self, taken: Iterable[TakenMessage]) -> None:
        """They were published, and that is noted or needs no note."""
        for each in taken:
            if each.minute in self.minutes:
                self.minutes[each.minute].in_flight.discard(each.record.sequence)

    def give_back(self, taken: Iterable[TakenMessage]) -> None:
        """They were not published: they wait again."""
        for record, number in taken:
            minute = self.minute(number)
            minute.in_flight.discard(record.sequence)
            minute.done.discard(record.sequence)
            self.add(number, record)

    def over(self, before: int, reach_ms: int) -> list[int]:
        """The minutes before number ``before`` that are to be dropped, all of them together.

        Nothing in them waits, nor can come to them: all that is due before ``reach_ms`` is merged. And nothing is left
        that one of their tombstones ends: an overdue message may lie in another minute than its tombstone, and would
        rise again with the next owner if the tombstone went first.
        """
        earliest = self.earliest_ms()
        merged_to = reach_ms if earliest is None else min(reach_ms, earliest)
        going = {
            number: minute
            for number, minute in self.minutes.items()
            if number < before
            and minute.is_drained
            and minute_bucket(number).end_ms <= reach_ms
            and minute.killed_to_ms < merged_to
        }
        while True:
            ended = set().union(*(minute.ended for number, minute in self.minutes.items() if number not in going))
            held = [number for number, minute in going.items() if not minute.killed.isdisjoint(ended)]
            if not held:
                return sorted(going)
            for number in held:
                del going[number]

    def drop(self, number: int) -> None:
        """Forget a minute that is drained."""
        minute = self.minutes.pop(number)
        still = set().union(*(each.killed for each in self.minutes.values()))
        for sequence in minute.killed - still:
            self._killed.pop(sequence, None)

    def _push(self, record: Packed, minute: LoadedMinute, source: Source) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (record.due_ms, record.sequence, self._pushed, record, minute, source))
