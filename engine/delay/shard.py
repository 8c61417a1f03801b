"""A shard of delayed messages, in the hands of its one owner.

It is told the time with every call and reads no clock; see :class:`engine.delay.shard_clock.ShardClock` for which time.
Nothing it promises rests on its memory: whoever opens the shard next, under a higher epoch, goes on where the ledgers
end. What was handed over and not noted is handed over again then: the bus knows it by its message id.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import msgspec

from engine.core.errors import BadInput, OutcomeUnknown
from engine.delay.book import ShardBook
from engine.delay.copying import Copying
from engine.delay.errors import NoSuchLedger, ShardLost
from engine.delay.leavings import Leavings
from engine.delay.ledgers.contract import LedgerEngine, LedgerStore
from engine.delay.ledgers.metadata import LedgerKind, LedgerRef, ShardChange, ShardMetadata
from engine.delay.levels import (
    Level,
    TimeBucket,
    insist_within,
    last_whole_tick,
    minute_bucket,
    minute_of,
    route,
    watermarks_at,
)
from engine.delay.loading import Loader
from engine.delay.looking import look_of
from engine.delay.near import NearTerm, TakenMessage
from engine.delay.outcomes import (
    AddOutcome,
    AddStatus,
    CancelStatus,
    Handed,
    RescheduleOutcome,
    ShardLook,
    ShardSettings,
)
from engine.delay.records import Packed, PendingMessage, RecordKind, dispatched, packed, tombstone
from engine.delay.search import DelayHandle, WaitingMessages, WantedMessages, wanted_of
from engine.delay.shard_clock import MOST_SKEW_MS
from engine.delay.writing import BucketWriters, WriteLane, Written, sealed_ref

#: A sequence is the epoch of the owner that gave it, and its count: no owner has to know where the one before ended.
COUNT_BITS = 40
MOST_EPOCHS = 1 << 23


class DelayShard:
    """Thread-safe: one call at a time.

    Every call may raise ``Unavailable`` (the store is away; call again) and :class:`~engine.delay.errors.ShardLost`
    (another owner has the shard: from then on every call does); what the call was to write may be written, or a part of
    it. ``now_ms`` is UTC; one before the last is taken for it.
    """

    def __init__(self, store: LedgerStore, book: ShardBook, now_ms: int, settings: ShardSettings) -> None:
        """Use :meth:`open`."""
        self._store = store
        self._book = book
        self._settings = settings
        self._lock = threading.RLock()
        self._now_ms = now_ms
        self._counted = 0
        self._lost: ShardLost | None = None
        self._near = NearTerm(minute_of(now_ms + settings.lead_ms))
        self._writers = BucketWriters(store, book, self._note_made, roll_bytes=settings.roll_bytes)
        self._leavings = Leavings(store, book, now_ms)
        self._copying = Copying(store, book, self._leavings, settings)
        self._loader = Loader(store, book, self._near, self._copying, settings)
        #: Published, and in no dispatch log yet.
        self._unnoted: list[TakenMessage] = []
        #: What owners before had, and was due until then, may have been published by them without a note.
        self._sure_from_ms = now_ms + 2 * MOST_SKEW_MS

    @classmethod
    def open(
        cls, engine: LedgerEngine, shard: str, epoch: int, now_ms: int, settings: ShardSettings | None = None
    ) -> Self:
        """Take a shard over: from here on no earlier owner can add anything to it.

        The bus must refuse what comes under lower epochs before ``now_ms`` is read: an earlier owner may still hold
        messages that it took. Of what was due by then nobody knows whether it published them; it can be cancelled no
        more, and is handed over (again).

        A node whose clock is not confirmed must not open anything: see :mod:`.shard_clock`.

        ``epoch`` must be beyond that of every opening before, also one that failed: acquire the lease anew.

        Raises ``Unavailable``, :class:`~engine.delay.errors.StaleEpoch`, :class:`~engine.delay.errors.ShardLost`, and
        ``BadInput`` for a name or an epoch that cannot be.
        """
        if not shard or not 0 < epoch < MOST_EPOCHS:
            raise BadInput(f"A shard cannot be opened as {shard!r} under epoch {epoch}.", field="epoch")
        store = engine.open(shard)
        try:
            book = ShardBook(store, _claimed(store, epoch))
            opened = cls(store, book, now_ms, settings or ShardSettings())
            with opened._owned(now_ms):
                _fence(store, book, now_ms)
                opened._loader.load(now_ms)
        except BaseException:
            store.close_store()
            raise
        return opened

    @property
    def epoch(self) -> int:
        return self._book.epoch

    def add(self, messages: Sequence[PendingMessage], now_ms: int) -> list[AddOutcome]:
        """Keep messages until they are due: one outcome each, once they are durable.

        What is due already is handed over with the next tick. A message that cannot be kept (beyond the horizon, too
        long) fails alone. Nothing is compared with what is there: the same message twice is two.
        """
        with self._owned(now_ms):
            self._advance()
            outcomes: list[AddOutcome | None] = [None] * len(messages)
            lots: dict[WriteLane, list[Packed]] = {}
            placed: dict[int, int] = {}
            for index, message in enumerate(messages):
                try:
                    insist_within(message.due_ms, self._now_ms, self._settings.horizon_ms)
                    record = packed(msgspec.structs.replace(message, sequence=self._next(), version=0))
                except BadInput as error:
                    outcomes[index] = AddOutcome(AddStatus.FAILED, error=error)
                    continue
                placed[record.sequence] = index
                lots.setdefault(WriteLane(self._route(record.due_ms)), []).append(record)
            written = self._write(lots)
            for status, records in (
                (AddStatus.KEPT, [record for each in written.acked.values() for record in each]),
                (AddStatus.UNKNOWN, written.unknown),
                (AddStatus.FAILED, written.failed),
            ):
                for record in records:
                    handle = None if status is AddStatus.FAILED else self._handle(record)
                    why = None if status is AddStatus.KEPT else written.error
                    outcomes[placed[record.sequence]] = AddOutcome(status, handle, why)
            return [outcome for outcome in outcomes if outcome is not None]

    def tick(self, now_ms: int, most: int) -> Handed:
        """What is to be published at ``now_ms``, at most ``most`` messages, the earliest due first; and a part of the
        work that keeps it so: closing buckets, copying them, loading minutes, deleting what is done with.

        Never a message before its due time. Call it every tick; :meth:`dispatched` or :meth:`give_back` must follow for
        each message. What is overdue comes first: while a bucket that should have been copied by now is not, only what
        is due before it is handed over. ``most`` is where a cap on the rate goes.
        """
        with self._owned(now_ms):
            now_ms = self._now_ms
            self._settle()
            self._note()
            self._advance()
            self._loader.load(now_ms)
            busy = self._copying.go_on(now_ms, self._writers)
            reach_ms = self._loader.load(now_ms)
            self._drop(now_ms, reach_ms)
            self._leavings.sweep(now_ms, self._copying.made())
            busy = self._leavings.delete_one() or busy
            until_ms = min(last_whole_tick(now_ms, self._settings.tick_ms), reach_ms - 1)
            room = self._settings.in_flight - self._in_flight()
            taken = self._near.take(until_ms, min(most, room))
            return Handed(taken, busy or (bool(taken) and len(taken) == most))

    def dispatched(self, taken: Sequence[TakenMessage]) -> None:
        """They were published: note it, so that another owner need not publish them again.

        Never raises for the store's sake: what could not be noted is noted with the next tick.
        """
        with self._owned(self._now_ms):
            self._unnoted += taken
            self._near.noted(taken)
            self._note()

    def give_back(self, taken: Sequence[TakenMessage]) -> None:
        """They were certainly not published: they wait again, and are handed over again."""
        with self._owned(self._now_ms):
            self._near.give_back(taken)

    def cancel(self, handles: Sequence[DelayHandle], now_ms: int) -> list[CancelStatus]:
        """Have messages not be handed over: one definite answer each. See :mod:`.search` for what that costs."""
        with self._owned(now_ms):
            if not handles:
                return []
            self._advance()
            asked = set(handles)
            ended = self._end([each for each in self._waiting(wanted_of(handles)) if self._handle(each) in asked])
            missed = self._missed([each for each in handles if each not in ended])
            return [ended[each] if each in ended else missed[each] for each in handles]

    def cancel_where(self, wanted: WantedMessages, now_ms: int) -> list[tuple[PendingMessage, CancelStatus]]:
        """Cancel all that wait and are wanted: by client's key, message id, due time, or whatever else."""
        with self._owned(now_ms):
            self._advance()
            found = self._waiting(wanted)
            ended = self._end(found)
            return [(record.message(), ended[self._handle(record)]) for record in found]

    def reschedule(self, handle: DelayHandle, due_ms: int, now_ms: int) -> RescheduleOutcome:
        """Have a message be handed over at another time. Raises ``BadInput`` for one that cannot be.

        One entry where both times lie in one bucket. Where they do not, the message is written at its new time before
        it is ended at its old one: an owner that dies in between leaves both, of which the bus lets the first through;
        nobody was told then that it was rescheduled.
        """
        with self._owned(now_ms):
            insist_within(due_ms, self._now_ms, self._settings.horizon_ms)
            self._advance()
            found = [each for each in self._waiting(wanted_of([handle])) if self._handle(each) == handle]
            if not found:
                return RescheduleOutcome(self._missed([handle])[handle])
            old = found[0]
            if not self._is_sure(old):
                return RescheduleOutcome(CancelStatus.DISPATCHED)
            message = msgspec.structs.replace(old.message(), due_ms=due_ms, version=old.version + 1)
            new, end = packed(message), tombstone(old)
            lane, old_lane = WriteLane(self._route(due_ms)), WriteLane(self._route(old.due_ms))
            lots = [{lane: [end, new]}] if lane == old_lane else [{lane: [new]}, {old_lane: [end]}]
            for lot in lots:
                written = self._write(lot)
                if written.unknown or written.failed:
                    return RescheduleOutcome(CancelStatus.IN_DOUBT)
            return RescheduleOutcome(CancelStatus.CANCELLED, self._handle(new))

    def find(self, wanted: WantedMessages, now_ms: int) -> list[PendingMessage]:
        """What waits and is wanted, by due time."""
        with self._owned(now_ms):
            return [record.message() for record in self._waiting(wanted)]

    def unnoted(self) -> list[TakenMessage]:
        """What was published and is in no dispatch log yet: another owner would publish it again."""
        with self._lock:
            return list(self._unnoted)

    def look(self) -> ShardLook:
        """Its state as far as this owner knows it; asks the store nothing."""
        with self._lock:
            return look_of(self._book, self._near, self._copying, self._writers.open_refs(), self._now_ms)

    def close(self) -> None:
        """An orderly end: the next owner finds every ledger closed. What is in flight is handed over again by it."""
        with self._owned(self._now_ms):
            try:
                self._note()
                self._writers.close_all()
            finally:
                self._lost = ShardLost(f"Shard {self._store.shard} was closed here.", remedy="Open it anew.")
                self._store.close_store()

    # What every call stands on ----------------------------------------------------------------------------------------

    @contextmanager
    def _owned(self, now_ms: int) -> Iterator[None]:
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._now_ms = max(self._now_ms, now_ms)
            try:
                yield
            except ShardLost as lost:
                self._lost = lost
                raise
            except NoSuchLedger:
                # Another owner has deleted it, or it is damage.
                self._insist_ours()
                raise

    def _insist_ours(self) -> None:
        try:
            self._book.insist_ours()
        except ShardLost as lost:
            self._lost = lost
            raise

    def _next(self) -> int:
        self._counted += 1
        return self._book.epoch << COUNT_BITS | self._counted

    def _handle(self, record: Packed) -> DelayHandle:
        return DelayHandle(self._store.shard, record.due_ms, record.sequence)

    def _route(self, due_ms: int) -> TimeBucket:
        return route(due_ms, self._now_ms, self._book.marks)

    def _is_near(self, bucket: TimeBucket) -> bool:
        return bucket.level is Level.L0M and bucket.number <= self._near.loaded_until

    def _note_made(self, lane: WriteLane, ledger: int) -> None:
        """What is written to it comes to the near term when it is acknowledged: it is never to be loaded."""
        if self._is_near(lane.bucket):
            self._near.minute(lane.bucket.number).known.add(ledger)

    def _write(self, lots: dict[WriteLane, list[Packed]]) -> Written:
        written = self._writers.write(lots, self._now_ms)
        for lane, records in written.acked.items():
            if self._is_near(lane.bucket):
                for record in records:
                    self._merge(lane.bucket.number, record)
        return written

    def _merge(self, minute: int, record: Packed) -> None:
        if record.kind is RecordKind.MESSAGE:
            self._near.add(minute, record)
        elif record.kind is RecordKind.TOMBSTONE:
            self._near.kill(minute, record)

    def _settle(self) -> None:
        """What was unknown and turns out to be there is merged, unless its ledger is still to be loaded."""
        homes = {ledger: minute.number for minute in self._near.minutes.values() for ledger in minute.known}
        for ledger, record in self._writers.settle():
            if ledger in homes:
                self._merge(homes[ledger], record)

    def _in_flight(self) -> int:
        return sum(len(minute.in_flight) for minute in self._near.minutes.values())

    # The parts of a tick ----------------------------------------------------------------------------------------------

    def _note(self) -> None:
        """Put into the dispatch logs what was published."""
        waiting = [each for each in self._unnoted if each.minute in self._near.minutes]
        if not waiting:
            self._unnoted = []
            return
        lots: dict[WriteLane, list[Packed]] = {}
        for record, minute in waiting:
            lane = WriteLane(minute_bucket(minute), LedgerKind.DISPATCH)
            lots.setdefault(lane, []).append(dispatched(record))
        written = self._write(lots)
        missing = {record.sequence for record in (*written.unknown, *written.failed)}
        self._unnoted = [each for each in waiting if each.record.sequence in missing]

    def _advance(self) -> None:
        """Have watermarks and near term be those of the time by now, before anything is routed.

        What is overdue is only then certain to go to a minute, and so is the tombstone of what is.
        """
        marks = self._book.marks.advanced(self._now_ms)
        if marks != self._book.marks:
            self._book.commit(lambda _: ShardChange(marks))
        until = minute_of(self._now_ms + self._settings.lead_ms)
        if until > self._near.loaded_until:
            # From here on new messages of these minutes are merged: their ledgers so far are closed, and loaded.
            self._writers.close(
                lane
                for lane in self._writers.lanes()
                if lane.bucket.level is Level.L0M and self._near.loaded_until < lane.bucket.number <= until
            )
            self._writers.tell()
            self._near.loaded_until = until

    def _drop(self, now_ms: int, reach_ms: int) -> None:
        """Delete minutes whose messages all were handed over, once nothing more can come to them."""
        over = [minute_bucket(number) for number in self._near.over(minute_of(now_ms), reach_ms)]
        if not over:
            return
        kept = [bucket for bucket in over if bucket in self._book.metadata.buckets]
        ledgers = [ref.id for bucket in kept for ref in self._book.refs(bucket)]
        if kept:
            self._book.commit(lambda _: ShardChange(buckets=dict.fromkeys(kept, ())))
        for bucket in over:
            self._near.drop(bucket.number)
            self._writers.forget(bucket)
        self._leavings.add(ledgers)

    # Finding and ending -----------------------------------------------------------------------------------------------

    def _waiting(self, wanted: WantedMessages) -> list[Packed]:
        self._settle()
        found = WaitingMessages(self._store, wanted)
        found.look_through(self._book.metadata.buckets)
        return [record for record in found.alive() if not self._near.is_done(record.sequence)]

    def _end(self, records: Sequence[Packed]) -> dict[DelayHandle, CancelStatus]:
        lots: dict[WriteLane, list[Packed]] = {}
        ended = {self._handle(record): CancelStatus.DISPATCHED for record in records if not self._is_sure(record)}
        for record in filter(self._is_sure, records):
            lots.setdefault(WriteLane(self._route(record.due_ms)), []).append(tombstone(record))
        written = self._write(lots)
        ended |= {self._handle(record): CancelStatus.CANCELLED for each in written.acked.values() for record in each}
        ended |= {self._handle(record): CancelStatus.IN_DOUBT for record in (*written.unknown, *written.failed)}
        return ended

    def _is_sure(self, record: Packed) -> bool:
        """Whether a message that waits is certain not to have been published by an owner before."""
        return record.sequence >> COUNT_BITS == self.epoch or record.due_ms > self._sure_from_ms

    def _missed(self, handles: Sequence[DelayHandle]) -> dict[DelayHandle, CancelStatus]:
        """Of those that do not wait."""
        if handles:
            # Nothing was written that would have been refused to who is owner no more, and knows nothing of its heirs.
            self._book.insist_ours()
        return {
            handle: CancelStatus.DISPATCHED
            if handle.shard == self._store.shard and self._near.is_done(handle.sequence)
            else CancelStatus.UNKNOWN
            for handle in handles
        }


def _claimed(store: LedgerStore, epoch: int) -> ShardMetadata:
    try:
        return store.claim(epoch)
    except OutcomeUnknown:
        metadata = store.metadata()
        if metadata.epoch != epoch:
            raise
        return metadata


def _fence(store: LedgerStore, book: ShardBook, now_ms: int) -> None:
    """Close what owners before left open, and set the watermarks of a shard that is new."""
    buckets = book.metadata.buckets
    left = [(bucket, ref) for bucket, refs in buckets.items() for ref in refs if not ref.sealed]
    infos = store.recover([ref.id for _, ref in left])
    sealed: dict[int, LedgerRef] = {
        ref.id: sealed_ref(store, ref.kind, info) for (_, ref), info in zip(left, infos, strict=True)
    }
    marks = (book.metadata.marks or watermarks_at(now_ms)).advanced(now_ms)
    touched = {bucket: tuple(sealed.get(ref.id, ref) for ref in buckets[bucket]) for bucket, _ in left}
    if touched or marks != book.metadata.marks:
        book.commit(lambda _: ShardChange(marks, touched))
