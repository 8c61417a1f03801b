"""Which buckets of a shard are being copied, and which are next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from engine.delay.book import ShardBook
from engine.delay.cascade import Cascade, CascadePlan, Router, begins_ms
from engine.delay.errors import LedgerClosed, LedgerFenced, NoSuchLedger
from engine.delay.leavings import Leavings
from engine.delay.ledgers.contract import LedgerStore
from engine.delay.ledgers.metadata import LedgerKind, Refs
from engine.delay.levels import TimeBucket, route
from engine.delay.outcomes import ShardSettings
from engine.delay.writing import BucketWriters, WriteLane


@dataclass(slots=True)
class RunningCascade:
    cascade: Cascade
    steps: Iterator[None]


class Copying:
    """The cascades of a shard. Not thread-safe.

    Any closed bucket there is will be copied, so a cascade may add to one that closed meanwhile: it takes from its
    source what it has read, and leaves what has come since for another.
    """

    def __init__(self, store: LedgerStore, book: ShardBook, leavings: Leavings, settings: ShardSettings) -> None:
        self._store = store
        self._book = book
        self._leavings = leavings
        self._settings = settings
        self._now_ms = 0
        self._running: dict[TimeBucket, RunningCascade] = {}
        self.attempts: Counter[TimeBucket] = Counter()

    def is_running(self, bucket: TimeBucket) -> bool:
        return bucket in self._running

    def made(self) -> set[int]:
        """Ledgers that no bucket refers to as yet."""
        return set().union(*(each.cascade.made for each in self._running.values()))

    def closed(self) -> list[TimeBucket]:
        """Those that are to be copied, the earliest first, and of two the one that may have something for the other."""
        marks = self._book.marks
        found = [bucket for bucket in self._book.metadata.buckets if marks.closes(bucket)]
        return sorted(found, key=lambda bucket: (bucket.start_ms, -bucket.level))

    def go_on(self, now_ms: int, writers: BucketWriters) -> bool:
        """Take some steps, those first that are needed first: whether any are left that could be taken now.

        Raises ``Unavailable`` and ``ShardLost``; what was under way then is begun anew.
        """
        self._now_ms = now_ms
        for bucket in self.closed():
            if bucket not in self._running and begins_ms(bucket, self._store.shard) <= now_ms:
                writers.close([WriteLane(bucket)])
                writers.tell()
                self._begin(bucket, self._book.refs(bucket), self._descend)
        left = self._settings.steps
        for bucket in sorted(self._running, key=lambda bucket: (bucket.start_ms, -bucket.level)):
            while left and self._step(bucket):
                left -= 1
            if not left:
                break
        return not left

    def sort(self, minute: TimeBucket, refs: Refs) -> None:
        """Make runs of a minute's ledgers that are too much to be sorted at once."""
        self._begin(minute, refs, lambda _: minute)

    def _begin(self, bucket: TimeBucket, refs: Refs, router: Router) -> None:
        self.attempts[bucket] += 1
        kept = tuple(ref for ref in refs if ref.kind is not LedgerKind.DISPATCH)
        attempt, chunk_bytes = self.attempts[bucket], self._settings.chunk_bytes
        plan = CascadePlan(bucket, router, kept, attempt, chunk_bytes)
        cascade = Cascade(self._store, self._book, self._leavings, plan)
        self._running[bucket] = RunningCascade(cascade, cascade.steps(self._now_ms))

    def _descend(self, due_ms: int) -> TimeBucket:
        return route(due_ms, self._now_ms, self._book.marks)

    def _step(self, bucket: TimeBucket) -> bool:
        """Whether there is another."""
        try:
            next(self._running[bucket].steps)
        except StopIteration:
            del self._running[bucket], self.attempts[bucket]
            return False
        except (LedgerFenced, LedgerClosed, NoSuchLedger):
            # The store has repaired itself under a run: the next attempt makes another.
            del self._running[bucket]
            return False
        except BaseException:
            del self._running[bucket]
            raise
        return True
