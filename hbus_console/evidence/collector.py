"""Books the fact stream into the ledger: every fact once, in order, whatever dies on the way."""

from __future__ import annotations

import redis
from django.db import transaction

from engine.core.clock import Clock, SystemClock
from engine.core.errors import Unavailable
from engine.core.facts import Fact
from hbus_console.database import fresh_connections
from hbus_console.evidence.fact_stream import Entry, FactReader
from hbus_console.evidence.models import Cursor
from hbus_console.evidence.router import LEDGER
from hbus_console.messages.projection import Rows

CURSOR = "facts"
#: Entries read at once; an entry holds up to two thousand facts.
READ_ENTRIES = 16
#: Facts booked in one transaction: enough to make the commit cheap, few enough to keep the write lock short.
BOOK_FACTS = 10_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0


class FactCollector:
    """A duty. The cursor lies in the ledger database and moves in the transaction of the rows it stands for, and only
    from where this collector found it, so that two of them, or a crash between two steps, book nothing twice.
    """

    name = "fact-collector"
    interval_s = 0.25

    def __init__(self, reader: FactReader, *, per_message: bool = True, clock: Clock | None = None) -> None:
        self._reader = reader
        self._per_message = per_message
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        """Book what waits, for at most :data:`TICK_S` seconds. Raises ``Unavailable`` when the store is away."""
        with fresh_connections():
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
            raise Unavailable(f"The fact stream could not be read: {error}.") from error
        booked = 0
        for batch in _batches(entries):
            booked += self._book(cursor, batch)
        self._reader.forget(cursor.entry, cursor.facts)
        return booked

    def _book(self, cursor: Cursor, entries: list[Entry]) -> int:
        rows = Rows()
        position, booked = cursor.facts, 0
        for entry in entries:
            rows.add(self._gap(entry, position), per_message=self._per_message)
            rows.add(entry.facts, per_message=self._per_message)
            booked += len(entry.facts)
            # A broken entry tells no number; the next one shows what it was worth.
            position = entry.last or position
        last, now_ms = entries[-1].id, self._clock.now_ms()
        with transaction.atomic(using=LEDGER):
            moved = Cursor.objects.filter(name=CURSOR, entry=cursor.entry).update(
                entry=last, facts=position, at_ms=now_ms
            )
            if not moved:
                raise Unavailable("Another keeper has booked these facts.", remedy="It holds the duty now.")
            rows.write()
        cursor.entry, cursor.facts = last, position
        return booked

    def _gap(self, entry: Entry, position: int) -> list[Fact]:
        """Notices about what is missing between fact number ``position`` and ``entry``."""
        if entry.broken:
            return [self._dropped(0, f"Entry {entry.id} of the fact stream is unreadable: {entry.broken}.")]
        lost = entry.last - len(entry.facts) - position
        if lost > 0:
            return [self._dropped(lost, f"{lost} facts were dropped because the keeper was away for too long.")]
        if lost < 0:
            return [self._dropped(0, "The store has forgotten facts: it was emptied, or restored from an older state.")]
        return []

    def _check_end(self, cursor: Cursor) -> int:
        """Nothing lies after the cursor: either all is booked, or the store has gone back to before it."""
        end, facts = self._reader.end()
        if end == "0-0" or _order(end) >= _order(cursor.entry):
            return 0
        rows = Rows()
        rows.add([self._dropped(0, "The store's clock or data went back; evidence may be missing.")], per_message=False)
        with transaction.atomic(using=LEDGER):
            Cursor.objects.filter(name=CURSOR, entry=cursor.entry).update(
                entry=end, facts=facts, at_ms=self._clock.now_ms()
            )
            rows.write()
        return 0

    def _dropped(self, count: int, detail: str) -> Fact:
        return Fact("facts_dropped", self._clock.now_ms(), size=count, detail=detail)


def _batches(entries: list[Entry]) -> list[list[Entry]]:
    """``entries`` in runs of about :data:`BOOK_FACTS` facts."""
    batches: list[list[Entry]] = [[]]
    held = 0
    for entry in entries:
        if held and held + len(entry.facts) > BOOK_FACTS:
            batches.append([])
            held = 0
        batches[-1].append(entry)
        held += len(entry.facts)
    return batches


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence or 0)
