"""Books the fact stream into the ledger: every fact once, in order, whatever dies on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import redis
from django.db import transaction

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from engine.core.facts import MOST_THINGS, CoreFields, FactBatch
from hbus_console.database import is_away
from hbus_console.evidence import freshness
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.fact_stream import Entry, FactReader
from hbus_console.evidence.losses import told
from hbus_console.evidence.models import Cursor
from hbus_console.evidence.numbering import Numbering
from hbus_console.evidence.router import LEDGER
from hbus_console.evidence.salvage import salvage

CURSOR = freshness.FACTS
#: Entries read at once; an entry holds up to two thousand facts.
READ_ENTRIES = 16
#: Facts booked in one transaction: enough to make the commit cheap, few enough to keep the write lock short.
BOOK_FACTS = 10_000
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 5.0


class _Overtaken(Unavailable):
    """The cursor is no longer where this collector found it."""


class FactCollector:
    """A duty. The cursor lies in the ledger database and moves in the transaction of the rows it stands for, and only
    from where this collector found it, so that two of them, or a crash between two steps, book nothing twice. A
    database that is away stops it. What an engine's projection raises does not: of that engine is lost what cannot be
    booked, told with its number and why. ``count`` is given the notices of all that was lost on the way, once they are
    booked.
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
        began_ms = self._clock.now_ms()
        try:
            entries = self._reader.read(cursor.entry, READ_ENTRIES)
            if not entries:
                return self._check_end(cursor, began_ms)
            # Asked after the entries were read: by then it counts all that is in them.
            came_in = self._reader.came_in()
        except redis.RedisError as error:
            raise Unavailable(f"The fact stream could not be read: {words_of(error)}.") from error
        batches = _batches(entries)
        # A round that was not full had all that there was.
        whole = batches[-1] if len(entries) < READ_ENTRIES else None
        booked = sum(
            self._book(cursor, batch, came_in, began_ms if batch is whole else _order(batch[-1].id)[0])
            for batch in batches
        )
        self._reader.forget(cursor.entry, cursor.facts)
        return booked

    def _book(self, cursor: Cursor, entries: list[Entry], came_in: int, of_ms: int) -> int:
        """Book all of ``entries`` at once; where that fails, engine by engine. All before ``of_ms`` is then booked.

        What one of them cannot book must hold up neither the others nor what follows.
        """
        numbers, booked = Numbering(cursor.facts, came_in), 0
        notices: list[FactBatch] = []
        facts: list[list[FactBatch]] = []
        for entry in entries:
            missing = [self._dropped(count, said) for count, said in numbers.follow(entry)]
            notices += missing
            facts.append([*missing, *entry.contents.batches])
            booked += entry.count
        last = entries[-1].id
        try:
            self._move(cursor, last, numbers.position, of_ms, self._rows(facts).write)
        except _Overtaken:
            raise
        except Exception as error:
            if is_away(error):
                raise
            self._move(cursor, last, numbers.position, of_ms, lambda: notices.extend(self._salvage(facts)))
        # What a process dropped before it reached the store, that process has counted; this is what was lost later.
        if self._count is not None:
            self._count(notices)
        cursor.entry, cursor.facts = last, numbers.position
        return booked

    def _move(self, cursor: Cursor, entry: str, facts: int, of_ms: int, write: Callable[[], None]) -> None:
        with transaction.atomic(using=LEDGER):
            moved = Cursor.objects.filter(name=CURSOR, entry=cursor.entry).update(
                entry=entry, facts=facts, at_ms=min(of_ms, self._clock.now_ms())
            )
            if not moved:
                raise _Overtaken("Another keeper has booked these facts.", remedy="It holds the duty now.")
            write()

    def _rows(self, entries: Iterable[Iterable[FactBatch]]) -> Booking:
        rows = Booking(self._per_message)
        for batches in entries:
            rows.add(batches)
        return rows

    def _salvage(self, entries: Sequence[Sequence[FactBatch]]) -> list[FactBatch]:
        """Book what can be; the notices of what could not, which are booked, too."""
        notices = [self._dropped(loss.count, told(loss)) for loss in salvage(entries, self._per_message)]
        self._rows([notices]).write()
        return notices

    def _check_end(self, cursor: Cursor, began_ms: int) -> int:
        """Nothing lies after the cursor: either all is booked, or the store has gone back to before it."""
        end, facts = self._reader.end()
        if end == "0-0" or _order(end) >= _order(cursor.entry):
            if abs(began_ms - cursor.at_ms) >= freshness.NOTE_MS:
                # Whoever reads figures must know that there was nothing to book.
                Cursor.objects.filter(name=CURSOR, entry=cursor.entry).update(at_ms=began_ms)
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
