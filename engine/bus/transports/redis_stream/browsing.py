"""Reading a topic without consuming it: pages, single messages, depth and counts."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice

from engine.bus import bounds
from engine.bus.dead_entries import dead_entry
from engine.bus.transport import DeadEntry, Depth, Page, Stored
from engine.bus.transports.redis_stream.positions import Place, bounds_before, ids_after, is_position, of_entry, place
from engine.bus.transports.redis_stream.scripts import WALK
from engine.bus.transports.redis_stream.topic import GroupKeys, TopicKeys, suffix_of
from engine.core.store.heavy_streams import StreamRange, first_of
from engine.core.store.link import Link

#: How many ids one call of the walking script returns.
STRIDE = 1_000


def browse(link: Link, partitions: Sequence[TopicKeys], *, after: str, limit: int, newest_first: bool) -> Page:
    """One page of all streams merged by position; a shorter one where the messages are large."""
    spans: list[StreamRange] = []
    lies: list[tuple[int, int]] = []
    for keys in partitions:
        number = keys.partition
        if newest_first:
            starts = bounds_before(after, number)
            spans += [StreamRange(stream, start, "-") for stream, start in zip(keys.streams, starts, strict=True)]
        else:
            starts = ids_after(after, number)
            spans += [StreamRange(stream, f"({start}", "+") for stream, start in zip(keys.streams, starts, strict=True)]
        lies += [(rank, number) for rank in range(len(keys.streams))]
    piece = first_of(
        link,
        spans,
        lambda span, entry_id: of_entry(entry_id, *lies[span]),
        limit=limit,
        room=bounds.PAGE_BYTES,
        newest_first=newest_first,
    )
    page = [_stored(each.at, each.flat) for each in piece.entries]
    return Page(page, piece.goes_on_after.text if piece.goes_on_after else "")


def read(link: Link, partitions: Sequence[TopicKeys], position: str) -> Stored | None:
    """One message, or ``None`` when it is not there (any more)."""
    at = place(position)
    if at.partition >= len(partitions):
        return None
    entries = link.command("XRANGE", partitions[at.partition].streams[at.rank], at.id, at.id)
    return _stored(at, entries[0][1]) if entries else None


def dead(link: Link, groups: Sequence[GroupKeys], limit: int) -> list[DeadEntry]:
    """The oldest dead letters of a group in parts; fewer where they are large."""
    marks = [suffix_of(keys.partition) for keys in groups]
    piece = first_of(
        link,
        [StreamRange(keys.dead, "-", "+") for keys in groups],
        lambda span, entry_id: place(entry_id + marks[span]),
        limit=limit,
        room=bounds.DEAD_BYTES,
    )
    return [
        dead_entry(each.id, each.flat, is_position=is_position, partition_mark=marks[each.span])
        for each in piece.entries
    ]


def depth(link: Link, partitions: Sequence[TopicKeys]) -> Depth:
    """Number, memory and age of what a topic holds."""
    messages = size = 0
    first: list[int] = []
    last: list[int] = []
    for stream in _streams(partitions):
        messages += link.command("XLEN", stream)
        size += link.command("MEMORY", "USAGE", stream) or 0
        for command, ends, into in (("XRANGE", ("-", "+"), first), ("XREVRANGE", ("+", "-"), last)):
            entries = link.command(command, stream, *ends, "COUNT", 1)
            into += [int(entry_id.partition(b"-")[0]) for entry_id, _ in entries]
    return Depth(messages, size, min(first, default=None), max(last, default=None))


def ids(link: Link, stream: str, start: str, end: str = "+") -> Iterator[str]:
    """The ids of a stretch of one stream, oldest first, fetched as they are asked for."""
    while True:
        found = [each.decode() for each in link.run(WALK, (stream,), (start, end, STRIDE))]
        yield from found
        if len(found) < STRIDE:
            return
        start = f"({found[-1]}"


def count_ids(link: Link, stream: str, start: str, end: str = "+", *, limit: int) -> int | None:
    """How many entries a stretch holds; ``None`` when more than ``limit``."""
    number = sum(1 for _ in islice(ids(link, stream, start, end), limit + 1))
    return None if number > limit else number


def merged(link: Link, partitions: Sequence[TopicKeys]) -> Iterator[Place]:
    """The places of a whole topic, oldest first."""
    return heapq.merge(
        *(
            _places(link, stream, rank, keys.partition)
            for keys in partitions
            for rank, stream in enumerate(keys.streams)
        )
    )


def _places(link: Link, stream: str, rank: int, partition: int) -> Iterator[Place]:
    for entry_id in ids(link, stream, "-"):
        yield of_entry(entry_id, rank, partition)


def _streams(partitions: Sequence[TopicKeys]) -> list[str]:
    return [stream for keys in partitions for stream in keys.streams]


def _stored(at: Place, fields: Sequence[bytes]) -> Stored:
    return Stored(at.text, at.ms, fields[1], at.priority)
