"""Bringing the minutes that come near into memory."""

from __future__ import annotations

from engine.delay.book import ShardBook
from engine.delay.copying import Copying
from engine.delay.ledgers.contract import LedgerStore
from engine.delay.ledgers.metadata import LedgerKind, LedgerRef
from engine.delay.levels import LATEST_MS, Level, TimeBucket, minute_of
from engine.delay.near import NearTerm
from engine.delay.outcomes import ShardSettings
from engine.delay.records import records_of
from engine.delay.writing import read_from


class Loader:
    """Merges each ledger of a near minute, once. Not thread-safe.

    It goes by what the metadata says and by what is merged already, and keeps nothing of its own: a ledger that came
    by a cascade, by a lost answer or before this owner is one that is not merged yet, and no more.
    """

    def __init__(
        self, store: LedgerStore, book: ShardBook, near: NearTerm, copying: Copying, settings: ShardSettings
    ) -> None:
        self._store = store
        self._book = book
        self._near = near
        self._copying = copying
        self._settings = settings

    def load(self, now_ms: int) -> int:
        """Merge what is there. The moment before which all that is due is merged now: nothing that is due then or later
        may be handed over as yet, for something earlier may still be to come.

        Raises ``Unavailable``; what was merged by then is.
        """
        for bucket in self._near_minutes():
            self._merge(bucket)
        reach = LATEST_MS
        for bucket in self._copying.closed():
            reach = min(reach, bucket.start_ms)
        for bucket in self._near_minutes():
            if self._unmerged(bucket):
                # What was overdue when it was written is in the minute of then, however early it was due.
                reach = min(reach, bucket.start_ms if bucket.number > minute_of(now_ms) else 0)
        return reach

    def _near_minutes(self) -> list[TimeBucket]:
        until = self._near.loaded_until
        buckets = self._book.metadata.buckets
        return sorted(bucket for bucket in buckets if bucket.level is Level.L0M and bucket.number <= until)

    def _unmerged(self, bucket: TimeBucket) -> list[LedgerRef]:
        known = self._near.minute(bucket.number).known
        return [ref for ref in self._book.refs(bucket) if ref.id not in known]

    def _merge(self, bucket: TimeBucket) -> None:
        number = bucket.number
        unsorted: list[LedgerRef] = []
        for ref in self._unmerged(bucket):
            if ref.kind is LedgerKind.DISPATCH:
                noted = [record for entry in read_from(self._store, ref.id) for record in records_of(entry)]
                self._near.note_done(number, (record.sequence for record in noted))
                self._near.minute(number).known.add(ref.id)
            elif ref.kind is LedgerKind.RUN:
                self._near.open_run(number, self._store, ref.id)
            else:
                unsorted.append(ref)
        if not unsorted or self._copying.is_running(bucket):
            return
        infos = self._store.recover([ref.id for ref in unsorted])
        if sum(info.length for info in infos) > self._settings.load_bytes:
            self._copying.sort(bucket, tuple(unsorted))
            return
        for ref in unsorted:
            records = [record for entry in read_from(self._store, ref.id) for record in records_of(entry)]
            self._near.open_records(number, ref.id, records)
