"""Books the fact stream into the ledger: every fact once, in order, whatever dies on the way."""

from __future__ import annotations

import logging
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
from hbus_console.evidence.router import LEDGER
from hbus_console.evidence.wire import Contents

CURSOR = "facts"
#: Entries read at once; an entry holds up to two thousand facts.
READ_ENTRIES = 16
#: Facts booked in one transaction: enough to make the commit cheap, few enough to keep the write lock short.
BOOK_FACTS = 10_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0
#: How many notices one entry may leave about what could not be read of it.
MOST_NOTICES = 20
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
        except redis.RedisError as error:
            raise Unavailable(f"The fact stream could not be read: {words_of(error)}.") from error
        booked = sum(self._book_or_bury(cursor, batch) for batch in _batches(entries))
        self._reader.forget(cursor.entry, cursor.facts)
        return booked

    def _book_or_bury(self, cursor: Cursor, entries: list[Entry]) -> int:
        """Book ``entries``; what the database can never take must not hold up all that is with it, nor what follows."""
        try:
            return self._book(cursor, entries)
        except _REFUSED:
            if len(entries) > 1:
                return sum(self._book_or_bury(cursor, [entry]) for entry in entries)
            (entry,) = entries
            try:
                return self._book(cursor, [self._without_refused(entry)])
            except _REFUSED as error:
                # Each of its parts could be booked, and not all of them together.
                return self._book(cursor, [_buried(entry, [], {type(error).__name__: (entry.count, words_of(error))})])

    def _without_refused(self, entry: Entry) -> Entry:
        """``entry`` with only those of its facts that the database takes; the others told by how many and why.

        Tries them in ever smaller parts and undoes it: the facts of one transaction are added up, so that what is
        booked must be booked at once.
        """
        taken: list[FactBatch] = []
        refused: dict[str, tuple[int, str]] = {}
        waiting = list(reversed(entry.contents.batches))
        tries = 0
        while waiting:
            batch = waiting.pop()
            error = self._refusal(batch)
            tries += 1
            if error is None:
                taken.append(batch)
            elif batch.count > 1 and tries < MOST_TRIES:
                half = batch.count // 2
                waiting += [batch.part(half, batch.count), batch.part(0, half)]
            else:
                many, why = refused.get(type(error).__name__, (0, words_of(error)))
                refused[type(error).__name__] = (many + batch.count, why)
        return _buried(entry, taken, refused)

    def _refusal(self, batch: FactBatch) -> Exception | None:
        """Why the database never takes ``batch``; ``None`` when it would. Leaves nothing behind."""
        rows = Booking(self._per_message)
        try:
            rows.add([batch])
            with transaction.atomic(using=LEDGER):
                rows.write()
                transaction.set_rollback(True, using=LEDGER)
        except _REFUSED as error:
            return error
        return None

    def _book(self, cursor: Cursor, entries: list[Entry]) -> int:
        rows = Booking(self._per_message)
        position, booked = cursor.facts, 0
        notices: list[FactBatch] = []
        for entry in entries:
            missing = self._missing(entry, position)
            notices += missing
            rows.add(missing)
            rows.add(entry.contents.batches)
            booked += entry.count
            # Who writes an entry without a number has not counted its facts with the others.
            position = entry.last or position
        last, now_ms = entries[-1].id, self._clock.now_ms()
        with transaction.atomic(using=LEDGER):
            moved = Cursor.objects.filter(name=CURSOR, entry=cursor.entry).update(
                entry=last, facts=position, at_ms=now_ms
            )
            if not moved:
                raise Unavailable("Another keeper has booked these facts.", remedy="It holds the duty now.")
            rows.write()
        # What a process dropped before it reached the store, that process has counted; this is what was lost later.
        if self._count is not None:
            self._count(notices)
        cursor.entry, cursor.facts = last, position
        return booked

    def _missing(self, entry: Entry, position: int) -> list[FactBatch]:
        """Notices about what is missing between fact number ``position`` and ``entry``, and in it."""
        lost = entry.last - entry.count - position if entry.last else 0
        if entry.broken:
            return [self._dropped(max(lost, 0), f"Entry {entry.id} of the fact stream is unreadable: {entry.broken}.")]
        found = []
        for known, why in entry.contents.lost[:MOST_NOTICES]:
            # Where nobody knows how many it was, all that is missing will have been in it.
            dropped = known or max(lost, 0)
            lost -= 0 if known else dropped
            said = f"A part of entry {entry.id} of the fact stream is unreadable: {why}."
            found.append(self._dropped(dropped, said))
        if lost > 0:
            said = f"{lost} facts were dropped because the keeper was away for too long."
            found.append(self._dropped(lost, said))
        elif lost < 0:
            said = "The store has forgotten facts: it was emptied, or restored from an older state."
            found.append(self._dropped(0, said))
        return found

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


def _buried(entry: Entry, taken: list[FactBatch], refused: dict[str, tuple[int, str]]) -> Entry:
    """``entry`` with only the facts ``taken``, and told how many were ``refused``: by error, how many and its words."""
    _log.error("entry %s of the fact stream has facts that cannot be booked: %s", entry.id, refused)
    lost = [(many, f"the database refused it: {name}: {why}"[:300]) for name, (many, why) in refused.items()]
    return replace(entry, contents=Contents(taken, [*lost, *entry.contents.lost]))


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
