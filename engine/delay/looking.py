"""A shard's state, as a console shows it."""

from __future__ import annotations

from collections.abc import Mapping

from engine.delay.book import ShardBook
from engine.delay.cascade import begins_ms
from engine.delay.copying import Copying
from engine.delay.ledgers.metadata import LedgerKind, LedgerRef
from engine.delay.levels import Level
from engine.delay.near import NearTerm
from engine.delay.outcomes import BucketLook, CascadeLook, LedgerLook, ShardLook

#: How many cascades are told ahead.
AHEAD = 8


def look_of(
    book: ShardBook, near: NearTerm, copying: Copying, known: Mapping[int, LedgerRef], now_ms: int
) -> ShardLook:
    """``known``: what the writer knows of ledgers, and the book not yet."""
    shard, marks = book.shard, book.marks
    ledgers: list[LedgerLook] = []
    buckets: list[BucketLook] = []
    pending = 0
    for bucket, refs in sorted(book.metadata.buckets.items(), key=lambda item: (item[0].start_ms, item[0].level)):
        told = [known.get(ref.id, ref) for ref in refs]
        kept = [ref for ref in told if ref.kind is not LedgerKind.DISPATCH]
        loaded = bucket.level is Level.L0M and bucket.number <= near.loaded_until
        waiting = sum(ref.messages - ref.tombstones for ref in kept)
        if loaded and bucket.number in near.minutes:
            minute = near.minutes[bucket.number]
            waiting -= len(minute.done) - len(minute.in_flight)
        pending += waiting
        ledgers += [
            LedgerLook(ref.id, bucket, ref.kind, ref.sealed, ref.messages, ref.tombstones, ref.length) for ref in told
        ]
        length = sum(ref.length for ref in told)
        buckets.append(BucketLook(bucket, waiting, len(told), length, marks.closes(bucket), loaded))
    coarse = [bucket for bucket in book.metadata.buckets if bucket.level is not Level.L0M]
    cascades = sorted(
        (
            CascadeLook(
                bucket,
                begins_ms(bucket, shard),
                bucket.start_ms,
                copying.is_running(bucket),
                copying.attempts.get(bucket, 0),
            )
            for bucket in coarse
        ),
        key=lambda cascade: cascade.begins_ms,
    )
    in_flight = sum(len(minute.in_flight) for minute in near.minutes.values())
    earliest = near.earliest_ms()
    return ShardLook(
        shard,
        book.epoch,
        now_ms,
        marks,
        pending,
        in_flight,
        0 if earliest is None else max(0, now_ms - earliest),
        buckets,
        cascades[:AHEAD],
        ledgers,
    )
