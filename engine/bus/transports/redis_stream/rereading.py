"""Reading the streams of a topic over again: the logs of :mod:`engine.bus.rereading`.

A log is called as a position ends: the mark of its priority and of its partition, and ``-`` for the normal log of
partition 0. A place is a position.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.bus.rereading import Extent, Stretch
from engine.bus.transports.redis_stream.browsing import ids
from engine.bus.transports.redis_stream.positions import ZERO, Place, of_entry, place
from engine.bus.transports.redis_stream.scripts import EXTENT
from engine.bus.transports.redis_stream.topic import MARKS, TopicKeys, suffix_of
from engine.core.errors import BadInput
from engine.core.store.failures import not_refused
from engine.core.store.link import Link

#: How the normal log of partition 0 is called, whose positions end in nothing.
PLAIN = "-"
_LOG = re.compile(r"([hl])?(?:p([1-9]\d{0,3}))?")
#: How many entries one command asks for at most: the store answers so few out of the processor's cache; how many the
#: first one does, which does not know yet how large they are; and about how many bytes a stretch is made of.
AT_ONCE, FIRST_LOOK = 1_000, 4
ROOM_BYTES = 32 * 1024 * 1024


def extents(link: Link, partitions: Iterable[TopicKeys]) -> list[Extent]:
    """Of every stream that is there."""
    places = [(keys, rank) for keys in partitions for rank in range(len(keys.streams))]
    answers = link.run_each(
        EXTENT,
        [((keys.streams[rank], keys.stats, keys.trimmed), (name_of(rank, keys.partition),)) for keys, rank in places],
    )
    return [
        _extent(keys, rank, answer)
        for (keys, rank), answer in zip(places, map(not_refused, answers), strict=True)
        if answer
    ]


def _extent(keys: TopicKeys, rank: int, told: tuple[bytes, bytes, int, int, bytes]) -> Extent:
    life, last, added, held, first = told
    newest = of_entry(last.decode(), rank, keys.partition)
    oldest = of_entry(first.decode(), rank, keys.partition) if first else None
    return Extent(
        log=name_of(rank, keys.partition),
        life=life.decode(),
        last="" if last.decode() == ZERO else newest.text,
        added=added,
        held=held,
        first=oldest.text if oldest else "",
        first_ms=oldest.ms if oldest else 0,
        last_ms=newest.ms,
    )


def stretch(link: Link, partitions: list[TopicKeys], log: str, after: str, *, upto: str, limit: int) -> Stretch:
    """In as many commands as it takes, none of which is likely to bring much more than there is room for."""
    rank, partition = _parse(log)
    positions: list[str] = []
    at_ms: list[int] = []
    bodies: list[bytes] = []
    start, end = _start(log, after), _id(log, upto) if upto else ""
    ended = partition >= len(partitions) or not end
    size, look = 0, FIRST_LOOK
    while not ended and len(bodies) < limit and size < ROOM_BYTES:
        asked = min(look, limit - len(bodies))
        found = link.command("XRANGE", partitions[partition].streams[rank], start, end, "COUNT", asked)
        texts = [entry[0].decode() for entry in found]
        new = [entry[1][1] for entry in found]
        positions += [text + _ending(log) for text in texts]
        at_ms += [int(text.partition("-")[0]) for text in texts]
        bodies += new
        size += sum(map(len, new))
        ended = len(found) < asked
        if not ended:
            start = f"({texts[-1]}"
            look = min(AT_ONCE, max(1, (ROOM_BYTES - size) * len(bodies) // max(1, size)))
    return Stretch(positions, at_ms, bodies, ended)


def nth_after(
    link: Link, partitions: list[TopicKeys], log: str, after: str, *, upto: str, number: int
) -> tuple[str, int]:
    """By the ids alone, which the store walks for us."""
    rank, partition = _parse(log)
    last, count = after, 0
    if partition < len(partitions) and upto:
        for text in ids(link, partitions[partition].streams[rank], _start(log, after), _id(log, upto)):
            if count == number:
                break
            last, count = text + _ending(log), count + 1
    return last, count


def place_before(log: str, at_ms: int) -> str:
    """Ids are times."""
    rank, partition = _parse(log)
    edge = Place(max(0, at_ms), 0, 0).previous_id()
    return "" if edge == ZERO else of_entry(edge, rank, partition).text


def name_of(rank: int, partition: int) -> str:
    """What the log of that stream is called."""
    return MARKS[rank] + suffix_of(partition) or PLAIN


def _parse(log: str) -> tuple[int, int]:
    """Rank and partition."""
    found = _LOG.fullmatch("" if log == PLAIN else log)
    if not found or not log:
        raise BadInput(f"{log!r} is no log of a topic.", remedy="Take a name that its extents tell.", field="log")
    mark, partition = found.groups(default="")
    return MARKS.index(mark), int(partition or 0)


def _id(log: str, position: str) -> str:
    """The id of a place of this log."""
    at = place(position)
    if name_of(at.rank, at.partition) != log:
        raise BadInput(f"{position!r} is no place in the log {log}.", remedy="Take one of its own.", field="position")
    return at.id


def _start(log: str, after: str) -> str:
    return f"({_id(log, after)}" if after else "-"


def _ending(log: str) -> str:
    return "" if log == PLAIN else log
