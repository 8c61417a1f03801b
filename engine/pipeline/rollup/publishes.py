"""When what was settled had been published: looked up in the sides of a topic, the latest day first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.pipeline.audit.hashing import hash_text
from engine.pipeline.audit.outcomes import find
from engine.pipeline.audit.sides import Side
from engine.pipeline.audit.summing import NONE
from engine.pipeline.lake.state import Kind

Ints = NDArray[np.int64]
#: Stands for none.
UNKNOWN = np.int64(-1)


def published_before(wanted: Side, rows: Ints, days: Sequence[Sequence[Side]]) -> Ints:
    """By row of ``rows`` of a side of deliveries: when its message was published, or stored, whichever is told as the
    earlier; :data:`UNKNOWN` where none of ``days`` tells. A day is asked for what no earlier one of them knew."""
    ids, sources = wanted.columns["id"][rows], _sources(wanted)[rows]
    nameless = wanted.columns["source"][rows] == NONE
    found = np.full(len(rows), UNKNOWN)
    for sides in days:
        open_ = np.flatnonzero(found == UNKNOWN)
        if not len(open_):
            break
        told = _told(np.unique(ids[open_]), sides)
        if told is None:
            continue
        named_ids, times = _earliest(told[0] ^ told[1], told[2])
        of_ids, of_times = _earliest(told[0], told[2])
        place, there = find(named_ids, ids[open_] ^ sources[open_])
        anyones, anyone_there = find(of_ids, ids[open_])
        # Whoever tells no source means any of that id.
        by_id = nameless[open_] & anyone_there
        at = np.where(there, times[place], UNKNOWN)
        found[open_] = np.where(by_id, of_times[anyones], np.where(nameless[open_], UNKNOWN, at))
    return found


def _told(ids: Ints, sides: Sequence[Side]) -> tuple[Ints, Ints, Ints] | None:
    """The id, the source and the time of each row about one of ``ids``, which are sorted, each once."""
    parts: list[tuple[Ints, Ints, Ints]] = []
    for side in sides:
        its = side.columns["id"]
        first, end = np.searchsorted(its, ids, "left"), np.searchsorted(its, ids, "right")
        lengths = end - first
        if not (number := int(lengths.sum())):
            continue
        # All rows of each id one after the other.
        rows = np.arange(number) + np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
        at = side.columns["stored" if side.file.kind is Kind.MESSAGES else "at"]
        parts.append((its[rows], _sources(side)[rows], at[rows]))
    if not parts:
        return None
    told_ids, sources, times = (np.concatenate(part) for part in zip(*parts, strict=True))
    return told_ids, sources, times


def _earliest(names: Ints, times: Ints) -> tuple[Ints, Ints]:
    """Each name once, sorted, with its earliest time."""
    order = np.lexsort((times, names))
    ordered = names[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1]) if len(ordered) else np.empty(0, bool)
    return ordered[is_first], times[order][is_first]


def _sources(side: Side) -> Ints:
    """By row, a number that is the same for one source in all files; that of none is 0."""
    numbers = np.array([*(hash_text(text) for text in side.names["source"]), 0], np.uint64).view(np.int64)
    return numbers[side.columns["source"]]
