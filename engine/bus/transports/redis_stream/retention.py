"""Retention: what is too old or too much goes, unless some group still needs it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from engine.bus.transport import TrimReport
from engine.bus.transports.redis_stream.browsing import count_ids, merged
from engine.bus.transports.redis_stream.positions import Place
from engine.bus.transports.redis_stream.rereading import name_of
from engine.bus.transports.redis_stream.scripts import TRIM
from engine.bus.transports.redis_stream.topic import TopicKeys
from engine.core.store.link import Link

#: How many messages that a group holds back are counted; a report of this many means "at least".
HELD_COUNT_LIMIT = 100_000


def trim(
    link: Link, partitions: Sequence[TopicKeys], *, now_ms: int, older_than_ms: int | None, keep_at_most: int | None
) -> TrimReport:
    """Remove what both is unwanted and settled by every group."""
    cutoffs = _cutoffs(link, partitions, now_ms, older_than_ms, keep_at_most)
    removed = held_back = 0
    held: set[str] = set()
    for (keys, rank), cutoff in cutoffs.items():
        stream, log = keys.streams[rank], name_of(rank, keys.partition)
        number, kept_from, *names = link.run(TRIM, (stream, keys.trimmed), (cutoff, log))
        removed += number
        if names:
            kept = count_ids(link, stream, kept_from.decode(), f"({cutoff}", limit=HELD_COUNT_LIMIT)
            held_back += HELD_COUNT_LIMIT if kept is None else kept
            held |= {name.decode() for name in names}
    return TrimReport(removed, tuple(sorted(held)), held_back)


def _cutoffs(
    link: Link, partitions: Sequence[TopicKeys], now_ms: int, older_than_ms: int | None, keep_at_most: int | None
) -> dict[tuple[TopicKeys, int], str]:
    """By stream (of a partition, by rank), the first id that the policy keeps."""
    by_age = Place(max(0, now_ms - older_than_ms), 0, 0) if older_than_ms is not None else Place(0, 0, 0)
    by_number: Place | None = None
    if keep_at_most is not None:
        streams = [stream for keys in partitions for stream in keys.streams]
        excess = sum(link.command("XLEN", stream) for stream in streams) - keep_at_most
        if excess > 0:
            by_number = next(islice(merged(link, partitions), excess - 1, None), None)
    return {
        (keys, rank): _first_kept(by_age, by_number, rank, keys.partition)
        for keys in partitions
        for rank in range(len(keys.streams))
    }


def _first_kept(by_age: Place, last_to_go: Place | None, rank: int, partition: int) -> str:
    """The first id of a stream that neither age nor number wants gone."""
    if last_to_go is None:
        return by_age.id
    goes = (rank, partition) <= (last_to_go.rank, last_to_go.partition)
    return max(by_age, Place(last_to_go.ms, last_to_go.seq + goes, 0)).id
