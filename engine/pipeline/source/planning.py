"""What is to be read next of a topic, and what of it cannot be read any more. Pure: a store is asked by the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import pairwise

import msgspec

from engine.bus import Extent, gone
from engine.pipeline.source.reached import NOTHING, LogReached, Reached, end_of


class Portion(msgspec.Struct, frozen=True, gc=False):
    """A part of one log: what lies after one place and not after another."""

    log: str
    after: str
    upto: str
    #: How many messages it holds, of those that retention has left when it was planned; ``None`` where nobody counts.
    messages: int | None
    #: How many the log had been given before the first of them, those included that are gone.
    added_before: int | None
    #: How many the log had lost by then, see :func:`~engine.bus.gone` of all it was ever given.
    lost_before: int | None
    #: Between which instants it was appended, epoch milliseconds, as far as is known without a look at it.
    from_ms: int
    until_ms: int


class Why(StrEnum):
    """How messages came to be gone before they were read."""

    TRIMMED = "trimmed"
    #: The store was emptied, or the topic made anew: what the life before had beyond that place is gone.
    EMPTIED = "emptied"


class Loss(msgspec.Struct, frozen=True, gc=False):
    """Messages of one log that nobody can read any more: they lay after ``after`` and before ``before``."""

    log: str
    why: Why
    after: str
    #: The first that is there again; empty when there is none yet.
    before: str
    #: ``None`` where nobody knows how many.
    messages: int | None


class ReadPlan(msgspec.Struct, frozen=True, gc=False):
    """What to read, what is gone, and how far one came when all of it is read."""

    portions: Sequence[Portion]
    losses: Sequence[Loss]
    reached: Reached


def plan(reached: Reached, extents: Iterable[Extent], upto: Reached | None = None) -> ReadPlan:
    """All that is there beyond ``reached``, up to ``upto`` or to the end.

    A loss is told where the transport counts what a log was given; one that does not trims in silence.
    """
    there = {extent.log: extent for extent in extents}
    ends = {log: end_of(extent) for log, extent in there.items()} if upto is None else upto
    parts = [_part(log, reached.get(log, NOTHING), there.get(log), end) for log, end in ends.items()]
    return ReadPlan(
        [portion for portion, _ in parts if portion is not None],
        [loss for _, loss in parts if loss is not None],
        {**reached, **ends},
    )


def counted_together(portions: Iterable[Portion]) -> int | None:
    """How many messages they hold; ``None`` where nobody counts those of one."""
    counts = [portion.messages for portion in portions]
    return None if None in counts else sum(count for count in counts if count is not None)


def _part(log: str, before: LogReached, extent: Extent | None, end: LogReached) -> tuple[Portion | None, Loss | None]:
    """What of one log can be read, and what cannot."""
    if end == before or (end.at == before.at and end.life == before.life):
        return None, None
    if extent is None or _is_another_life(end, extent):
        # It was there when its end was told.
        return None, Loss(log, Why.EMPTIED, before.at, "", _between(before, end))
    loss = None
    if _is_another_life(before, extent):
        loss = Loss(log, Why.EMPTIED, before.at, extent.first, None)
        before = NOTHING
    lost = gone(extent, before.added)
    there = _between(before, end)
    if lost is not None and there is not None:
        # Retention may have come beyond the end already.
        lost = min(lost, there)
        there -= lost
    if lost and loss is None:
        loss = Loss(log, Why.TRIMMED, before.at, extent.first, lost)
    if there == 0 or not extent.held:
        return None, loss
    return (
        Portion(
            log=log,
            after=before.at,
            upto=end.at,
            messages=there,
            added_before=None if before.added is None else before.added + (lost or 0),
            lost_before=gone(extent, 0),
            from_ms=max(extent.first_ms, before.at_ms),
            until_ms=end.at_ms or extent.last_ms,
        ),
        loss,
    )


def _between(before: LogReached, end: LogReached) -> int | None:
    if before.added is None or end.added is None or (before.life and before.life != end.life):
        return None
    return max(0, end.added - before.added)


def _is_another_life(known: LogReached, extent: Extent) -> bool:
    if known.life and extent.life:
        return known.life != extent.life
    # A store that names no lives still counts; nothing that was added is taken off again.
    return known.added is not None and extent.added is not None and extent.added < known.added


def cut(portion: Portion, pieces: int, first_ms: int, place_before: Callable[[str, int], str]) -> list[Portion]:
    """The same in up to so many pieces of equal time; how many messages each has nobody has counted then.

    ``first_ms`` is when the first message of it was stored: every edge lies after that, and so after what was read.
    """
    span = portion.until_ms - first_ms
    pieces = min(pieces, span)
    if pieces <= 1:
        return [portion]
    edges_ms = [first_ms, *(first_ms - (-span * index // pieces) for index in range(1, pieces)), portion.until_ms]
    places = [portion.after, *(place_before(portion.log, at_ms) for at_ms in edges_ms[1:-1]), portion.upto]
    return [
        msgspec.structs.replace(
            portion, after=after, upto=upto, messages=None, from_ms=edges_ms[index], until_ms=edges_ms[index + 1]
        )
        for index, (after, upto) in enumerate(pairwise(places))
    ]
