"""What became of the messages of one range of hashes in each subscription."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.bus import BUS_KINDS
from engine.pipeline.audit.gathering import Topic, named
from engine.pipeline.audit.histogram import Durations, durations
from engine.pipeline.audit.places import Places, no_places
from engine.pipeline.audit.scope import Scope
from engine.pipeline.audit.sides import Array
from engine.pipeline.audit.summing import NONE

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Kinds whose rows are told of, beside being counted.
TOLD_OF = ("retried", "dead", "lost", "passed")
#: An outcome that is told after this one counts instead: of this one nobody told.
_GUESSED = "passed"


@dataclass(slots=True)
class SubscriptionMatched:
    """What one subscription did with these messages."""

    #: By the kind of its outcome and window: messages.
    outcomes: dict[str, Ints]
    #: Rows by kind, of messages of the span.
    rows: dict[str, int]
    #: Handlers that ended, by the number of the attempt.
    attempts: dict[int, int]
    #: From being stored to being settled.
    settled: Durations
    #: Rows of deliveries, by kind; and those that settled what was settled before.
    told: dict[str, Places]
    again: Places
    #: The row with the highest attempt of each message of whose attempts one before it was not told of.
    interrupted: Places
    #: Messages without an outcome: when each was stored, in which log, and whether anything was told of it here.
    open: Places
    open_stored: Ints
    open_log: Array
    open_tried: Bools
    #: When the first of its messages was stored, and by log the last with an outcome; 0: none.
    first_ms: int
    front_ms: Ints


@dataclass(slots=True)
class Delivered:
    """Of all subscriptions."""

    by_subscription: dict[str, SubscriptionMatched]
    #: Rows that are of no subscription, by kind.
    of_topic: dict[str, int]
    #: Outcomes of messages that are neither published nor stored.
    orphans: Places


@dataclass(frozen=True, slots=True)
class Known:
    """Messages of a range, each once: those that are stored, then those that are only published."""

    stored_idents: Ints
    published_idents: Ints
    ids: Ints
    at: Ints
    stored: Ints
    #: Of those that are stored, from here on.
    target: Array
    file: Array
    row: Array

    def find(self, idents: Ints) -> Ints:
        """The place of each; -1 for none."""
        place, is_stored = find(self.stored_idents, idents)
        rest = np.flatnonzero(~is_stored)
        other, is_published = find(self.published_idents, idents[rest])
        place[rest] = np.where(is_published, len(self.stored_idents) + other, -1)
        return place

    def find_by_id(self, ids: Ints) -> Ints:
        """Whoever tells no source means any of that id."""
        order = np.argsort(self.ids, kind="stable")
        place, is_there = find(self.ids[order], ids)
        return np.where(is_there, order[place], -1) if len(order) else np.full(len(ids), -1)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Those of one subscription about messages that are known, in the order in which they were booked."""

    place: Ints
    kind: Array
    attempt: Array
    at: Ints
    within: Bools
    #: Which they are of all.
    which: Ints


def find(ordered: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """The place of each in what is sorted, and whether it is there; where it is not the place means nothing."""
    if not len(ordered):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return place, ordered[place] == wanted


def match_deliveries(topic: Topic, scope: Scope, low: int, high: int | None, known: Known) -> Delivered:
    """Of the same range as ``known``."""
    rows = topic.deliveries.between(low, high, ("id", "source", "subscription", "kind", "attempt", "at", "row"))
    place = known.find(named(rows["id"], rows["source"]))
    if len(nobodys := np.flatnonzero(rows["source"] == NONE)):
        place[nobodys] = known.find_by_id(rows["id"][nobodys])
    there = place >= 0
    moments = np.where(there, known.at[place], rows["at"]) if len(known.at) else rows["at"]
    within = scope.holds(moments)

    def places(which: Ints) -> Places:
        return Places(moments[which], rows["id"][which], rows["file"][which], rows["row"][which])

    of_subscription = rows["subscription"] != NONE
    kinds, numbers = np.unique(rows["kind"][within & ~of_subscription], return_counts=True)
    is_final = _final(topic)[rows["kind"]] & of_subscription
    delivered = Delivered(
        {},
        {topic.kinds[kind]: number for kind, number in zip(kinds.tolist(), numbers.tolist(), strict=True)},
        places(np.flatnonzero(is_final & ~there & within & (rows["at"] < scope.closed_ms))),
    )
    for number, name in enumerate(topic.subscriptions):
        which = np.flatnonzero((rows["subscription"] == number) & there)
        of_it = _Rows(
            place[which], rows["kind"][which], rows["attempt"][which], rows["at"][which], within[which], which
        )
        matched = _of_subscription(topic, scope, known, number, of_it)
        for kind in TOLD_OF:
            if kind in matched.rows:
                matched.told[kind] = places(which[of_it.within & (of_it.kind == topic.kinds.index(kind))])
        matched.again = places(which[_again(topic, len(known.at), of_it)])
        matched.interrupted = places(which[_interrupted(len(known.at), of_it)])
        delivered.by_subscription[name] = matched
    return delivered


def _of_subscription(topic: Topic, scope: Scope, known: Known, number: int, rows: _Rows) -> SubscriptionMatched:
    outcome = _outcomes(topic, len(known.at), rows)
    kinds, counts = np.unique(rows.kind[rows.within], return_counts=True)
    has_outcome = outcome >= 0
    in_scope = scope.holds(known.at)
    done = np.flatnonzero(has_outcome & in_scope)
    done_kind = rows.kind[outcome[done]]
    settled = done[done_kind == _number(topic, "settled")]
    tried = np.zeros(len(known.at), bool)
    tried[rows.place] = True
    is_stored = np.arange(len(known.at)) < len(known.stored_idents)
    mine = (known.target == NONE) | (known.target == number)
    open_ = np.flatnonzero((~has_outcome & in_scope & (known.stored < scope.closed_ms) & is_stored)[: len(mine)] & mine)
    logs = topic.messages.logs[known.file]
    front = np.zeros(len(topic.logs), np.int64)
    reached = np.flatnonzero(has_outcome[: len(logs)])
    np.maximum.at(front, logs[reached], known.stored[reached])
    return SubscriptionMatched(
        outcomes={
            topic.kinds[kind]: scope.counts(known.at[done[done_kind == kind]]) for kind in np.unique(done_kind).tolist()
        },
        rows={topic.kinds[kind]: count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)},
        attempts=_attempts(topic, rows),
        settled=durations(rows.at[outcome[settled]] - known.stored[settled]),
        told={},
        again=no_places(),
        interrupted=no_places(),
        open=Places(known.at[open_], known.stored_idents[open_], known.file[open_], known.row[open_]),
        open_stored=known.stored[open_],
        open_log=logs[open_],
        open_tried=tried[open_],
        first_ms=int(known.stored[rows.place].min()) if len(rows.place) else 0,
        front_ms=front,
    )


def _outcomes(topic: Topic, messages: int, rows: _Rows) -> Ints:
    """By message: the row of its outcome, which is the first that was booked; -1 for none."""
    outcome = np.full(messages, -1, np.int64)
    is_final = _final(topic)[rows.kind]
    guessed = rows.kind == _number(topic, _GUESSED)
    for of_them in (is_final & guessed, is_final & ~guessed):
        # Of several for one place the last that is written stays.
        which = np.flatnonzero(of_them)[::-1]
        outcome[rows.place[which]] = which
    return outcome


def _again(topic: Topic, messages: int, rows: _Rows) -> Ints:
    """Rows that settled what was settled before."""
    settled = np.flatnonzero((rows.kind == _number(topic, "settled")) & rows.within)
    known = np.zeros(messages, bool)
    known[rows.place[settled]] = True
    if np.count_nonzero(known) == len(settled):
        return np.empty(0, np.int64)
    order = np.argsort(rows.place[settled], kind="stable")
    places = rows.place[settled][order]
    again: Ints = settled[order[1:][places[1:] == places[:-1]]]
    return again


def _interrupted(messages: int, rows: _Rows) -> Ints:
    """Whatever names an attempt tells of it, if only that it was handed back."""
    repeated = np.zeros(messages, bool)
    repeated[rows.place[rows.within & (rows.attempt > 1)]] = True
    which = np.flatnonzero(repeated[rows.place] & rows.within & (rows.attempt > 0))
    order = which[np.lexsort((rows.attempt[which], rows.place[which]))]
    place, attempt = rows.place[order], rows.attempt[order]
    is_last = np.append(place[1:] != place[:-1], True)[: len(order)]
    is_new = np.append(True, (place[1:] != place[:-1]) | (attempt[1:] != attempt[:-1]))[: len(order)]
    told = np.bincount(place[is_new], minlength=messages)
    interrupted: Ints = order[is_last][attempt[is_last] > told[place[is_last]]]
    return interrupted


def _attempts(topic: Topic, rows: _Rows) -> dict[int, int]:
    attempted = np.array([*(_is(kind, "attempted") for kind in topic.kinds), False])[rows.kind]
    numbers, counts = np.unique(rows.attempt[attempted & rows.within & (rows.attempt > 0)], return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _number(topic: Topic, kind: str) -> int:
    """Of a kind; one that no row has where it never occurs."""
    return topic.kinds.index(kind) if kind in topic.kinds else NONE - 1


def _final(topic: Topic) -> Bools:
    """By the number of a kind, the last one for none."""
    return np.array([*(_is(kind, "final") for kind in topic.kinds), False])


def _is(kind: str, what: str) -> bool:
    # A kind of another release says nothing of it.
    return kind in BUS_KINDS and bool(getattr(BUS_KINDS[kind], what))
