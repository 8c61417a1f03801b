"""What is booked of facts: each engine's go to the projection that keeps its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Protocol

from django.db import transaction

from engine.core.facts import FactBatch
from hbus_console.evidence.kinds import catalog_of
from hbus_console.evidence.router import LEDGER
from hbus_console.evidence.rows import EvidenceRows
from hbus_console.registry.loading import features
from hbus_console.registry.names import PROJECTIONS


class Projection(Protocol):
    """Rows of one engine's facts, gathered and then inserted at once.

    Made with whether each fact is to be kept, or only what they add up to. The facts of an engine for which no feature
    names a projection become :class:`~hbus_console.evidence.rows.EvidenceRows`.
    """

    #: The engine whose facts it takes.
    engine: str

    def add(self, batch: FactBatch) -> None: ...

    def write(self) -> None:
        """Insert everything into the ledger database, inside the caller's transaction.

        Whatever ``add`` or this raises costs its own engine those facts, and no other: they are offered again in parts,
        to new projections, and what still fails is told as lost.
        """
        ...


class Booking:
    """One transaction's worth of facts; without ``each`` only what they add up to is kept."""

    def __init__(self, each: bool = True) -> None:
        self._each = each
        self._projections: dict[str, Projection] = {}

    def add(self, batches: Iterable[FactBatch]) -> None:
        """Make rows of ``batches``; one of a kind that nobody declares is passed over."""
        for batch in batches:
            catalog = catalog_of(batch.kind)
            if catalog is not None:
                self._projection(catalog.engine).add(batch)

    def write(self) -> None:
        """Insert everything into the ledger database. The caller opens the transaction."""
        for engine, projection in self._projections.items():
            projection.write()
            # A statement that failed and was caught has undone what all have written, and nobody would be told.
            if transaction.get_rollback(using=LEDGER):
                raise RuntimeError(f"The projection of {engine} has caught an error of the database.")

    def _projection(self, engine: str) -> Projection:
        found = self._projections.get(engine)
        if found is None:
            found = self._projections[engine] = _makers().get(engine, EvidenceRows)(self._each)
        return found


@cache
def _makers() -> Mapping[str, Callable[[bool], Projection]]:
    return PROJECTIONS.by_name(features())
