"""Reading a topic without consuming it: pages, single messages, depth and counts."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from engine.bus.transport import Depth, Page, Stored
from engine.bus.transports.redis_stream.positions import Place, bounds_before, ids_after, of_entry, place
from engine.bus.transports.redis_stream.scripts import WALK
from engine.bus.transports.redis_stream.topic import TopicKeys
from engine.core.store.link import Link

#: How many ids one call of the walking script returns.
STRIDE = 1_000
#: About how many bytes of bodies one page is made of; how many entries a stream is asked for before their size is
#: known.
PAGE_BYTES = 32 * 1024 * 1024
FIRST_LOOK = 16


def browse(link: Link, partitions: Sequence[TopicKeys], *, after: str, limit: int, newest_first: bool) -> Page:
    """One page of all streams merged by position; a shorter one where the messages are large."""
    found: list[tuple[Place, Any]] = []
    room = PAGE_BYTES // len(_streams(partitions))
    #: Beyond the nearest of these something of a stream that was not read to its end may lie.
    reached: list[Place] = []
    for keys in partitions:
        number = keys.partition
        if newest_first:
            starts = bounds_before(after, number)
            ranges = [("XREVRANGE", stream, start, "-") for stream, start in zip(keys.streams, starts, strict=True)]
        else:
            starts = ids_after(after, number)
            ranges = [("XRANGE", stream, f"({start}", "+") for stream, start in zip(keys.streams, starts, strict=True)]
        for rank, command in enumerate(ranges):
            entries, ended = _stretch(link, *command, limit=limit + 1, room=room)
            found += [(of_entry(entry_id.decode(), rank, number), fields) for entry_id, fields in entries]
            if not ended:
                reached.append(found[-1][0])
    found.sort(key=lambda each: each[0], reverse=newest_first)
    if reached:
        nearest = max(reached) if newest_first else min(reached)
        sure = next(index for index, (at, _) in enumerate(found) if at == nearest) + 1
        limit = min(limit, sure)
    page = [_stored(at, fields) for at, fields in found[:limit]]
    return Page(page, page[-1].position if page and (reached or len(found) > limit) else "")


def _stretch(
    link: Link, command: str, stream: str, start: str, end: str, *, limit: int, room: int
) -> tuple[list[tuple[bytes, Sequence[bytes]]], bool]:
    """Entries of one stream, at most ``limit`` and about ``room`` bytes, and whether there are no more of them."""
    entries: list[tuple[bytes, Sequence[bytes]]] = []
    size, look = 0, FIRST_LOOK
    while True:
        asked = min(look, limit - len(entries))
        found = link.command(command, stream, start, end, "COUNT", asked)
        entries += found
        if len(found) < asked:
            return entries, True
        size += sum(len(fields[1]) for _, fields in found)
        if len(entries) >= limit or size >= room:
            return entries, False
        look = max(1, (room - size) * len(entries) // max(1, size))
        start = f"({entries[-1][0].decode()}"


def read(link: Link, partitions: Sequence[TopicKeys], position: str) -> Stored | None:
    """One message, or ``None`` when it is not there (any more)."""
    at = place(position)
    if at.partition >= len(partitions):
        return None
    entries = link.command("XRANGE", partitions[at.partition].streams[at.rank], at.id, at.id)
    return _stored(at, entries[0][1]) if entries else None


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
