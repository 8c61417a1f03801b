"""Each key's order, over all files: what was stored behind a later one, and which sequence numbers are missing.

A key is looked at only if some of its runs do not follow each other as they should, and then row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.pipeline.audit.gathering import Topic, named
from engine.pipeline.audit.outcomes import find
from engine.pipeline.audit.places import Places, Small
from engine.pipeline.audit.runs import BY_TIME, EXEMPT
from engine.pipeline.audit.sides import Array

#: About how many runs are looked at at once.
RUNS_AT_ONCE = 2_000_000

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Ranges of sequence numbers that nothing has, between others of their key."""

    #: Both ends are missing.
    first: Ints
    last: Ints
    #: The message with the next number, when that was stored, and when the one before was.
    behind: Places
    behind_stored: Ints
    before_stored: Ints


@dataclass(frozen=True, slots=True)
class Order:
    """What is wrong in some of the groups. A group is a key and a source, see :mod:`~engine.pipeline.audit.runs`."""

    #: Messages that lie behind one of a higher number, or of a later time where they bear no number; of one log.
    late: Places
    late_by_time: Places
    gaps: Gaps


@dataclass(frozen=True, slots=True)
class _Runs:
    """Of some groups: group by group, and within one log by log in the order of storing."""

    group: Ints
    log: Small
    first: Ints
    last: Ints
    rows: Ints
    row: Ints
    how: Array
    file: Small

    def take(self, which: Bools | Ints) -> _Runs:
        return _Runs(*(getattr(self, name)[which] for name in _NAMES))


_NAMES = ("group", "log", "first", "last", "rows", "row", "how", "file")


def parts_of(topic: Topic) -> range:
    """By what :func:`look_through` is to be called."""
    runs = sum(len(side.columns["run_key"]) for side in topic.messages.sides)
    return range(max(1, -(-runs // RUNS_AT_ONCE)))


def look_through(topic: Topic, part: int, parts: int) -> Order:
    """One of so many parts of all groups."""
    runs = _in_question(topic, part, parts)
    copies = (runs.how & EXEMPT) > 0
    by_time = (runs.how & BY_TIME) > 0
    return Order(
        _late(topic, runs.take(~copies & ~by_time)),
        _late(topic, runs.take(~copies & by_time)),
        _gaps(topic, runs.take(~by_time)),
    )


def look_up(topic: Topic, file: Small, row: Ints | Small) -> tuple[Places, Ints]:
    """What the sides have of these rows of messages: the places, and when each was stored."""
    at, ident, stored = (np.zeros(len(file), np.int64) for _ in range(3))
    for number in np.unique(file).tolist():
        side, which = topic.messages.sides[number], np.flatnonzero(file == number)
        columns = side.columns
        place = np.zeros(side.file.rows, np.int64)
        place[columns["row"]] = np.arange(side.rows)
        found = place[row[which]]
        at[which], stored[which] = columns["at"][found], columns["stored"][found]
        ident[which] = named(columns["id"][found], topic.messages.numbers[number]["source"][columns["source"][found]])
    return Places(at, ident, file.astype(np.int32), row.astype(np.int32)), stored


def _in_question(topic: Topic, part: int, parts: int) -> _Runs:
    """All runs of those groups in which some two neighbours do not follow each other: mostly there is none."""
    chosen = [_chosen(side.columns["run_key"], part, parts) for side in topic.messages.sides]
    columns = topic.messages.of(chosen, ("run_key", "run_source", "run_first", "run_last", "run_how"))
    group = named(columns["run_key"], columns["run_source"])
    order = np.argsort(group, kind="stable")
    group, log = group[order], topic.messages.logs[columns["file"]][order]
    first, last, how = (columns[name][order] for name in ("run_first", "run_last", "run_how"))
    which = _is_flagged(group=group, log=log, first=first, last=last, how=how)
    place = order[which]
    rest = topic.messages.of(chosen, ("run_rows", "run_row"))
    return _Runs(
        group[which],
        log[which],
        first[which],
        last[which],
        rest["run_rows"][place].astype(np.int64),
        rest["run_row"][place].astype(np.int64),
        how[which],
        columns["file"][place],
    )


def _chosen(keys: Ints, part: int, parts: int) -> Bools | slice:
    # By bits of the hash that are as good as any.
    return slice(None) if parts == 1 else (keys.view(np.uint64) >> np.uint64(20)) % np.uint64(parts) == part


def _is_flagged(*, group: Ints, log: Small, first: Ints, last: Ints, how: Array) -> Ints:
    same = group[1:] == group[:-1]
    follows = np.where(how[1:] == BY_TIME, first[1:] >= last[:-1], first[1:] == last[:-1] + 1)
    # Copies stand for themselves, and what else there is goes on around them.
    fine = (how[1:] == how[:-1]) & (log[1:] == log[:-1]) & (how[1:] & EXEMPT == 0) & follows
    flagged = np.unique(group[1:][same & ~fine])
    return np.flatnonzero(find(flagged, group)[1]) if len(flagged) else np.empty(0, np.int64)


def _late(topic: Topic, runs: _Runs) -> Places:
    place = np.repeat(np.arange(len(runs.rows)), runs.rows)
    behind_first = np.arange(len(place)) - np.repeat(np.cumsum(runs.rows) - runs.rows, runs.rows)
    file, row = runs.file[place], runs.row[place] + behind_first
    if len(runs.how) and runs.how[0] & BY_TIME:
        value = look_up(topic, file, row)[0].at
    else:
        value = runs.first[place] + behind_first
    segment = _segments(runs.group, runs.log)[place]
    highest = _highest_before(segment, value)
    late = np.flatnonzero(value < highest)
    return look_up(topic, file[late], row[late])[0]


def _gaps(topic: Topic, runs: _Runs) -> Gaps:
    # Of several that bear the number behind a gap, the earliest is named, however runs are cut by files.
    begins, _ = look_up(topic, runs.file, runs.row)
    runs = runs.take(np.lexsort((begins.ident, begins.at, runs.first, runs.group)))
    segment = _segments(runs.group, np.zeros(len(runs.group), np.int32))
    highest = _highest_before(segment, runs.last)
    gap = np.flatnonzero((highest >= 0) & (runs.first > highest + 1))
    behind, behind_stored = look_up(topic, runs.file[gap], runs.row[gap])
    _, before_stored = look_up(topic, runs.file[gap - 1], runs.row[gap - 1] + runs.rows[gap - 1] - 1)
    return Gaps(highest[gap] + 1, runs.first[gap] - 1, behind, behind_stored, before_stored)


def _segments(group: Ints, log: Small) -> Ints:
    """Numbers what lies together, from 0 on."""
    changes = (group[1:] != group[:-1]) | (log[1:] != log[:-1])
    return np.concatenate([np.zeros(min(1, len(group)), np.int64), np.cumsum(changes)])


def _highest_before(segment: Ints, value: Ints) -> Ints:
    """The highest value before each in its segment; -1 for the first. No value is below 0."""
    if not len(value):
        return value
    known, rank = np.unique(value, return_inverse=True)
    # In a later segment everything is higher than in an earlier one.
    so_far = np.maximum.accumulate(segment * len(known) + rank)
    before = np.full(len(value), -1, np.int64)
    same = segment[1:] == segment[:-1]
    before[1:][same] = known[(so_far[:-1] - segment[:-1] * len(known))[same]]
    return before


def joined_gaps(parts: Iterator[Gaps]) -> Gaps:
    """All of them."""
    from_parts = list(parts)
    return Gaps(
        np.concatenate([part.first for part in from_parts]),
        np.concatenate([part.last for part in from_parts]),
        Places(
            np.concatenate([part.behind.at for part in from_parts]),
            np.concatenate([part.behind.ident for part in from_parts]),
            np.concatenate([part.behind.file for part in from_parts]),
            np.concatenate([part.behind.row for part in from_parts]),
        ),
        np.concatenate([part.behind_stored for part in from_parts]),
        np.concatenate([part.before_stored for part in from_parts]),
    )
