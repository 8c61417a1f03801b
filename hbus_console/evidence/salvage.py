"""Books facts of which not all can be booked: each engine's by itself, and of one that fails whatever it can."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from django.db import DatabaseError, transaction

from engine.core.error_text import class_of, words_of
from engine.core.facts import FactBatch
from hbus_console.database import is_away
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.kinds import catalog_of
from hbus_console.evidence.router import LEDGER

#: How many parts of an entry are tried, in search of what cannot be booked; the rest is given up together.
MOST_TRIES = 1_000
#: How many parts are tried while none was booked: then it is not the facts.
MOST_IN_VAIN = 50
#: How a database's driver refuses a number that no column holds.
_BY_THE_DATABASE = (DatabaseError, OverflowError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loss:
    """So many facts of one engine could not be booked, for one reason."""

    engine: str
    count: int
    why: str


def salvage(entries: Sequence[Sequence[FactBatch]], each: bool) -> list[Loss]:
    """Book the facts of ``entries`` inside the caller's transaction; returns what could not be.

    What one engine's projection raises, whatever it is, undoes and loses nothing of another's. Raises what the database
    raises that is away: then nothing of this may be kept.
    """
    by_engine: dict[str, list[list[FactBatch]]] = {}
    for entry in entries:
        found: dict[str, list[FactBatch]] = {}
        for batch in entry:
            if catalog := catalog_of(batch.kind):
                found.setdefault(catalog.engine, []).append(batch)
        for engine, batches in found.items():
            by_engine.setdefault(engine, []).append(batches)
    return [loss for engine, parts in by_engine.items() for loss in _Search(engine, each).book(parts)]


class _Search:
    """For those facts of one engine that cannot be booked."""

    def __init__(self, engine: str, each: bool) -> None:
        self._engine = engine
        self._each = each
        self._tries = 0
        self._booked_some = False
        self._lost: Counter[str] = Counter()
        self._words: dict[str, str] = {}

    def book(self, parts: list[list[FactBatch]]) -> list[Loss]:
        """Book all of ``parts``, or each of them, or ever smaller parts of these."""
        whole = list(chain.from_iterable(parts))
        if error := self._try(whole):
            _log.error("facts of the engine %s cannot be booked", self._engine, exc_info=error)
            failed = [(part, cause) for part in parts if (cause := self._try(part))]
            self._divide(failed[::-1], MOST_TRIES * len(parts))
        return [Loss(self._engine, count, self._words[name]) for name, count in self._lost.items()]

    def _divide(self, failed: list[tuple[list[FactBatch], Exception]], most: int) -> None:
        while failed and self._tries < (most if self._booked_some else MOST_IN_VAIN):
            part, error = failed.pop()
            smaller = _halves(part)
            if not smaller:
                self._lose(1, error)
            failed += [(half, cause) for half in reversed(smaller) if (cause := self._try(half))]
        for part, error in failed:
            self._lose(sum(batch.count for batch in part), error)

    def _try(self, batches: list[FactBatch]) -> Exception | None:
        """Book ``batches``; why not, if it cannot be, and then nothing of them is booked."""
        self._tries += 1
        error = _refusal(batches, self._each)
        self._booked_some |= error is None
        return error

    def _lose(self, count: int, error: Exception) -> None:
        name = class_of(error)
        by = "the database refused it: " if isinstance(error, _BY_THE_DATABASE) else ""
        self._words.setdefault(name, f"{by}{name}: {words_of(error)}"[:300])
        self._lost[name] += count


def _refusal(batches: Sequence[FactBatch], each: bool) -> Exception | None:
    try:
        with transaction.atomic(using=LEDGER):
            rows = Booking(each)
            rows.add(batches)
            rows.write()
    except Exception as error:
        # A savepoint that could not be gone back to has taken all that is around it along.
        if is_away(error) or transaction.get_rollback(using=LEDGER):
            raise
        return error
    return None


def _halves(batches: list[FactBatch]) -> list[list[FactBatch]]:
    """The same facts in two; nothing for a single fact."""
    if len(batches) > 1:
        half = len(batches) // 2
        return [batches[:half], batches[half:]]
    (batch,) = batches
    half = batch.count // 2
    return [[batch.part(0, half)], [batch.part(half, batch.count)]] if half else []
