"""Ledgers that nothing refers to any more, and how they go."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from engine.delay.book import ShardBook
from engine.delay.ledgers.contract import LedgerStore
from engine.delay.levels import HOUR_MS

#: How old a ledger must be that no bucket refers to before it is deleted, and how often that is looked for.
ORPHAN_MS = HOUR_MS


class Leavings:
    """What is to be deleted, one ledger at a time: a long one takes a store a while. Not thread-safe.

    Lost with its owner, it is found again by :meth:`sweep`, of this owner or one after it.
    """

    def __init__(self, store: LedgerStore, book: ShardBook, now_ms: int) -> None:
        self._store = store
        self._book = book
        self._swept_ms = now_ms
        self._waiting: deque[int] = deque()

    def add(self, ledgers: Iterable[int]) -> None:
        """Nothing refers to them from here on."""
        self._waiting.extend(ledgers)

    def delete_one(self) -> bool:
        """Whether there are more. Raises ``Unavailable``."""
        if self._waiting:
            self._store.delete([self._waiting[0]])
            self._waiting.popleft()
        return bool(self._waiting)

    def sweep(self, now_ms: int, spared: Iterable[int]) -> None:
        """Find what a death has left: old, and referred to neither by a bucket nor among ``spared``.

        Never what a later owner made, who may have meant it and only not committed yet.
        """
        if now_ms < self._swept_ms + ORPHAN_MS:
            return
        referred = {ref.id for refs in self._book.metadata.buckets.values() for ref in refs}
        referred.update(spared, self._waiting)
        self.add(
            info.id
            for info in self._store.ledgers()
            if info.id not in referred
            and info.about.epoch <= self._book.epoch
            and info.about.made_ms <= now_ms - ORPHAN_MS
        )
        self._swept_ms = now_ms
