"""Positions: where a message lies in its topic, as text that sorts by time across the three streams.

``<ms>-<seq>`` is an entry of the normal stream; ``h`` or ``l`` behind it one of the high or the low stream, and ``p3``
behind that one of partition 3 (partition 0 is not named). A checkpoint is one id per stream and the topic's
incarnation, ``<high>,<normal>,<low>,<incarnation>``; of a topic with partitions ``<high>,<normal>,<low>`` for each,
with ``;`` between them. ``@<epoch ms>`` is an instant.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.bus.transport import Priority
from engine.bus.transports.redis_stream.topic import MARKS, PRIORITIES, suffix_of
from engine.core.errors import BadInput

ZERO = "0-0"
#: The largest sequence number a stream can give.
_SEQ_MAX = 2**64 - 1
_POSITION = re.compile(r"(\d{1,20})-(\d{1,20})([hl])?(?:p([1-9]\d{0,3}))?")
_IDS = r"(?:\d{1,20}-\d{1,20},){2}\d{1,20}-\d{1,20}"
_CHECKPOINT = re.compile(rf"({_IDS}(?:;{_IDS})*)(?:,([0-9a-f]{{0,32}}))?")
_INSTANT = re.compile(r"@(\d{1,16})")

#: One id per stream: high, normal, low.
Ids = tuple[str, str, str]


class Place(NamedTuple):
    """A position taken apart; compares in the order of the topic."""

    ms: int
    seq: int
    #: 0 high, 1 normal, 2 low.
    rank: int
    partition: int = 0

    @property
    def id(self) -> str:
        return f"{self.ms}-{self.seq}"

    @property
    def text(self) -> str:
        return self.id + MARKS[self.rank] + suffix_of(self.partition)

    @property
    def priority(self) -> Priority:
        return PRIORITIES[self.rank]

    def previous_id(self) -> str:
        """The largest id before this one."""
        if self.seq:
            return f"{self.ms}-{self.seq - 1}"
        return f"{self.ms - 1}-{_SEQ_MAX}" if self.ms else ZERO


def _no_position(text: str) -> BadInput:
    return BadInput(
        f"{text!r} is not a position.",
        remedy="Use a position from a page of the topic, a checkpoint, or @ and epoch milliseconds.",
        field="position",
    )


def is_position(text: str) -> bool:
    """Whether it is the place of a message."""
    return _POSITION.fullmatch(text) is not None


def place(position: str) -> Place:
    """Take a position apart; raises :class:`BadInput` when it is none."""
    found = _POSITION.fullmatch(position)
    if not found:
        raise _no_position(position)
    ms, seq, mark, partition = found.groups(default="")
    return Place(int(ms), int(seq), MARKS.index(mark), int(partition or 0))


def of_entry(entry_id: str, rank: int, partition: int = 0) -> Place:
    """The place of entry ``entry_id`` of the stream with that rank (0 high, 1 normal, 2 low)."""
    ms, _, seq = entry_id.partition("-")
    return Place(int(ms), int(seq), rank, partition)


def ids_after(position: str, partition: int = 0) -> Ids:
    """Per stream, the last id that does not lie after ``position`` (also a checkpoint, instant or named end)."""
    if position in ("", "beginning"):
        return (ZERO, ZERO, ZERO)
    if position == "end":
        return ("$", "$", "$")
    if instant := _INSTANT.fullmatch(position):
        edge = Place(int(instant[1]), 0, 0).previous_id()
        return (edge, edge, edge)
    if "," in position:
        places = _checkpoint(position)[0]
        # A partition that was added since has been seen by nobody.
        return places[partition] if partition < len(places) else (ZERO, ZERO, ZERO)
    mine = place(position)
    last = (mine.rank, mine.partition)
    high, normal, low = (mine.id if (rank, partition) <= last else mine.previous_id() for rank in range(3))
    return (high, normal, low)


def incarnation_of(position: str) -> str:
    """The incarnation that a checkpoint was taken in; empty for any other position."""
    return _checkpoint(position)[1] if "," in position else ""


def partitions_of(position: str) -> int:
    """How many partitions a checkpoint speaks of; 1 for any other position."""
    return len(_checkpoint(position)[0]) if "," in position else 1


def _checkpoint(position: str) -> tuple[list[Ids], str]:
    found = _CHECKPOINT.fullmatch(position)
    if not found:
        raise _no_position(position)
    places, incarnation = found.groups(default="")
    ids = []
    for each in places.split(";"):
        high, normal, low = each.split(",")
        ids.append((high, normal, low))
    return ids, incarnation


def bounds_before(position: str, partition: int = 0) -> Ids:
    """Per stream, the XREVRANGE start that gives what lies before ``position``; an instant includes itself."""
    if not position:
        return ("+", "+", "+")
    if instant := _INSTANT.fullmatch(position):
        edge = f"{instant[1]}-{_SEQ_MAX}"
        return (edge, edge, edge)
    mine = place(position)
    at = (mine.rank, mine.partition)
    high, normal, low = (mine.id if (rank, partition) < at else f"({mine.id}" for rank in range(3))
    return (high, normal, low)
