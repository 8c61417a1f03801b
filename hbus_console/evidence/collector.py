"""Books the fact stream into the ledger: every fact once, in order, whatever dies on the way."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import redis
from django.db import DataError, IntegrityError, transaction

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from engine.core.facts import MOST_THINGS, CoreFields, FactBatch
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.fact_stream import Entry, FactReader
from hbus_console.evidence.models import Cursor
from hbus_console.evidence.numbering import Numbering
from hbus_console.evidence.router import LEDGER
from hbus_console.evidence.wire import Contents

CURSOR = "facts"
#: Entries read at once; an entry holds up to two thousand facts.
READ_ENTRIES = 16
#: Facts booked in one transaction: enough to make the commit cheap, few enough to keep the write lock short.
BOOK_FACTS = 10_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0
#: How many parts of an entry are tried, in search of what the database refuses; the rest is given up together.
MOST_TRIES = 1_000
#: How a database says that it will never take these rows, however often it is asked.
_REFUSED = (DataError, IntegrityError, OverflowError, ValueError)

_log = logging.getLogger(__name__)


class FactCollector:
    """A duty. The cursor lies in the ledger database and moves in the transaction of the rows it stands for, and only
    from where this collector found it, so that two of them, or a crash between two steps, book nothing twice.
    ``count`` is given the notices of what was lost on the way, once they are booked.
    """

    name = "fact-collector"
    interval_s = 0.25

    def __init__(
        self,
        reader: FactReader,
        *,
        per_message: bool = True,
        count: Callable[[Sequence[FactBatch]], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._reader = reader
        self._per_message = per_message
        self._count = count
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        """Book what waits, for at most :data:`TICK_S` seconds. Raises ``Unavailable`` when the store is away."""
        started = self._clock.monotonic()
        while self.step() and self._clock.monotonic() - started < TICK_S:
            pass

    def step(self) -> int:
        """Read one round and book it; returns how many facts it held."""
        cursor, _ = Cursor.objects.get_or_create(name=CURSOR)
        try:
            entries = self._reader.read(cursor.entry, READ_ENTRIES)
            if not entries:
                return self._check_end(cursor)
            # Asked after the entries were read: by then it counts all that is in them.
            came_in = self._reader.came_in()
        except redis.RedisError as error:
            raise Unavailable(f"The fact stream could not be read: {words_of(error)}.") from error
        booked = sum(self._book_or_bury(cursor, batch, came_in) for batch in _batches(entries))
        self._reader.forget(cursor.entry, cursor.facts)
        return booked

    def _book_or_bury(self, cursor: Cursor, entries: list[Entry], came_in: int) -> int:
        """Book ``entries``; what the database can never take must not hold up all that is with it, nor what follows."""
        try:
            return self._book(cursor, entries, came_in)
        except _REFUSED:
            if len(entries) > 1:
                return sum(self._book_or_bury(cursor, [entry], came_in) for entry in entries)
            (entry,) = entries
            try:
                return self._book(cursor, [self._without_refused(entry)], came_in)
            except _REFUSED as error:
                # Each of its parts could be booked, and not all of them together.
                lost = [(entry.contents.count, _refused(type(error).__name__, words_of(error)))]
                return self._book(cursor, [_buried(entry, [], lost)], came_in)

    def _without_refused(self, entry: Entry) -> Entry:
        """``entry`` with only those of its facts that the database takes; the others told by how many and why.

        Tries them in ever smaller parts and undoes it: the facts of one transaction are added up, so that what is
        booked must be booked at once.
        """
        taken: list[FactBatch] = []
        refused: Counter[str] = Counter()
        words: dict[str, str] = {}
        waiting = [entry.contents.batches] if entry.contents.batches else []
        for _ in range(MOST_TRIES):
            if not waiting:
                break
            part = waiting.pop()
            error = self._refusal(part)
            if error is None:
                taken += part
                continue
            name = type(error).__name__
            words.setdefault(name, words_of(error))
            smaller = _halves(part)
            waiting += reversed(smaller)
            if not smaller:
                refused[name] += 1
        if waiting:
            refused[name] += sum(batch.count for part in waiting for batch in part)
        return _buried(entry, taken, [(many, _refused(name, words[name])) for name, many in refused.items()])

    def _refusal(self, batches: Sequence[FactBatch]) -> Exception | None:
        """Why the database never takes ``batches``; ``None`` when it would. Leaves nothing behind."""
        rows = Booking(self._per_message)
        try:
            rows.add(batches)
            with transaction.atomic(using=LEDGER):
                rows.write()
                transaction.set_rollback(True, using=LEDGER)
        except _REFUSED as error:
            return error
        return None

    def _book(self, cursor: Cursor, entries: list[Entry], came_in: int) -> int:
        rows = Booking(self._per_message)
        numbers, booked = Numbering(cursor.facts, came_in), 0
        notices: list[FactBatch] = []
        for entry in entries:
            missing = [self._dropped(facts, said) for facts, said in numbers.follow(entry)]
            notices += missing
            rows.add(missing)
            rows.add(entry.contents.batches)
            booked += entry.count
        last, now_ms = entries[-1].id, self._clock.now_ms()
        with transaction.atomic(using=LEDGER):
            moved = Cursor.objects.filter(name=CURSOR, entry=cursor.entry).update(
                entry=last, facts=numbers.position, at_ms=now_ms
            )
            if not moved:
                raise Unavailable("Another keeper has booked these facts.", remedy="It holds the duty now.")
            rows.write()
        # What a process dropped before it reached the store, that process has counted; this is what was lost later.
        if self._count is not None:
            self._count(notices)
        cursor.entry, cursor.facts = last, numbers.position
        return booked

    def _check_end(self, cursor: Cursor) -> int:
        """Nothing lies after the cursor: either all is booked, or the store has gone back to before it."""
        end, facts = self._reader.end()
        if end == "0-0" or _order(end) >= _order(cursor.entry):
            return 0
        rows = Booking()
        rows.add([self._dropped(0, "The store's clock or data went back; evidence may be missing.")])
        with transaction.atomic(using=LEDGER):
            Cursor.objects.filter(name=CURSOR, entry=cursor.entry).update(
                entry=end, facts=facts, at_ms=self._clock.now_ms()
            )
            rows.write()
        return 0

    def _dropped(self, facts: int, detail: str) -> FactBatch:
        return FactBatch(
            "facts_dropped", self._clock.now_ms(), detail=detail, fields=CoreFields(min(facts, MOST_THINGS))
        )


def _buried(entry: Entry, taken: list[FactBatch], lost: list[tuple[int, str]]) -> Entry:
    """``entry`` with only the facts ``taken``, and told what was ``lost``: how many and why."""
    _log.error("entry %s of the fact stream has facts that cannot be booked: %s", entry.id, lost)
    return replace(entry, contents=Contents(taken, [*lost, *entry.contents.lost]))


def _refused(error: str, words: str) -> str:
    return f"the database refused it: {error}: {words}"[:300]


def _halves(batches: list[FactBatch]) -> list[list[FactBatch]]:
    """The same facts in two; nothing for a single fact."""
    if len(batches) > 1:
        half = len(batches) // 2
        return [batches[:half], batches[half:]]
    (batch,) = batches
    half = batch.count // 2
    return [[batch.part(0, half)], [batch.part(half, batch.count)]] if half else []


def _batches(entries: list[Entry]) -> list[list[Entry]]:
    """``entries`` in runs of about :data:`BOOK_FACTS` facts."""
    batches: list[list[Entry]] = [[]]
    held = 0
    for entry in entries:
        if held and held + entry.count > BOOK_FACTS:
            batches.append([])
            held = 0
        batches[-1].append(entry)
        held += entry.count
    return batches


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence or 0)
