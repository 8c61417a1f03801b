"""Retention: what is too old or too much goes, unless some group still needs it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from engine.bus.transport import TrimReport
from engine.bus.transports.redis_stream.link import Link
from engine.bus.transports.redis_stream.positions import Ids, Place
from engine.bus.transports.redis_stream.reading import count_ids, merged
from engine.bus.transports.redis_stream.scripts import TRIM

#: How many messages that a group holds back are counted; a report of this many means "at least".
HELD_COUNT_LIMIT = 100_000


def trim(
    link: Link, streams: Sequence[str], *, now_ms: int, older_than_ms: int | None, keep_at_most: int | None
) -> TrimReport:
    """Remove what both is unwanted and settled by every group."""
    cutoffs = _cutoffs(link, streams, now_ms, older_than_ms, keep_at_most)
    removed = held_back = 0
    held: set[str] = set()
    for stream, cutoff in zip(streams, cutoffs, strict=True):
        number, kept_from, *names = link.run(TRIM, (stream,), (cutoff,))
        removed += number
        if names:
            kept = count_ids(link, stream, kept_from.decode(), f"({cutoff}", limit=HELD_COUNT_LIMIT)
            held_back += HELD_COUNT_LIMIT if kept is None else kept
            held |= {name.decode() for name in names}
    return TrimReport(removed, tuple(sorted(held)), held_back)


def _cutoffs(
    link: Link, streams: Sequence[str], now_ms: int, older_than_ms: int | None, keep_at_most: int | None
) -> Ids:
    """Per stream, the first id that the policy keeps."""
    by_age = Place(max(0, now_ms - older_than_ms), 0, 0) if older_than_ms is not None else Place(0, 0, 0)
    by_number = Place(0, 0, 0)
    if keep_at_most is not None:
        excess = sum(link.command("XLEN", stream) for stream in streams) - keep_at_most
        if excess > 0:
            last_to_go = next(islice(merged(link, streams), excess - 1, None), None)
            by_number = last_to_go or by_number
            high, normal, low = (_first_kept(by_age, by_number, rank) for rank in range(3))
            return (high, normal, low)
    return (by_age.id, by_age.id, by_age.id)


def _first_kept(by_age: Place, last_to_go: Place, rank: int) -> str:
    """The first id of stream ``rank`` that neither age nor number wants gone."""
    by_number = Place(last_to_go.ms, last_to_go.seq + (1 if rank <= last_to_go.rank else 0), 0)
    return max(by_age, by_number).id
