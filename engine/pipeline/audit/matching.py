"""Messages of one range of hashes: what was published, stored and delivered of them, compared one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.pipeline.audit.gathering import Topic, named
from engine.pipeline.audit.histogram import Durations, durations
from engine.pipeline.audit.outcomes import Delivered, Known, find, match_deliveries
from engine.pipeline.audit.places import Places, addresses
from engine.pipeline.audit.scope import Counted, Scope
from engine.pipeline.audit.summing import COPY, LONG_ID, SKEWED

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class Matched:
    """What came of one range."""

    published: Counted
    stored: Counted
    replayed: Counted
    #: Messages that are both published and stored.
    both: Ints
    archived: Durations
    #: Rows of what was published; those that nobody stored.
    missing: Places
    #: Rows of messages, from here on: those nobody told of, with when they were stored …
    untold: Places
    untold_stored: Ints
    #: … further copies, of what lies earlier at ``copied``; where the payload is another, ``conflicting``.
    copies: Places
    copied: Ints
    conflicting: Bools
    skewed: Places
    foreign: Places
    delivered: Delivered


def match(topic: Topic, scope: Scope, low: int, high: int | None, producers: frozenset[str] | None) -> Matched:
    """Of the range from one hash to below another. ``producers``: the sources that may publish; ``None``: any."""
    messages = topic.messages.between(
        low, high, ("id", "source", "at", "stored", "size", "flags", "target", "archived", "row")
    )
    published = topic.published.between(low, high, ("id", "source", "at", "size", "row"))
    idents = named(messages["id"], messages["source"])
    order = np.argsort(idents, kind="stable")
    sorted_idents = idents[order]
    is_first = _firsts(sorted_idents)
    first = order[is_first]
    told_idents = named(published["id"], published["source"])
    told_order = np.argsort(told_idents, kind="stable")
    told = told_order[_firsts(told_idents[told_order])]
    known_idents, told_idents = sorted_idents[is_first], told_idents[told]
    place, is_stored = find(known_idents, told_idents)

    at, stored = messages["at"], messages["stored"]
    within = scope.holds(at)
    told_at = np.where(is_stored, at[first[place]], published["at"][told]) if len(first) else published["at"][told]
    told_within = scope.holds(told_at)
    is_told = np.zeros(len(first), bool)
    is_told[place[is_stored]] = True

    untold = first[
        within[first] & ~is_told & (stored[first] < scope.closed_ms) & (messages["flags"][first] & LONG_ID == 0)
    ]
    copy = np.flatnonzero(~is_first)
    owner = order[np.flatnonzero(is_first)[np.cumsum(is_first) - 1][copy]]
    copy = order[copy]
    copy, owner = copy[within[copy]], owner[within[copy]]
    archived = messages["archived"][within]

    def of_messages(which: Ints) -> Places:
        return Places(at[which], idents[which], messages["file"][which], messages["row"][which])

    replayed = within & (messages["flags"] & COPY > 0)
    both = told_within & is_stored
    lacking = told_within & ~is_stored & (published["at"][told] < scope.closed_ms)
    missing = told[lacking]
    alone = told[~is_stored]
    known = Known(
        stored_idents=known_idents,
        published_idents=told_idents[~is_stored],
        ids=np.concatenate([messages["id"][first], published["id"][alone]]),
        at=np.concatenate([at[first], published["at"][alone]]),
        stored=np.concatenate([stored[first], published["at"][alone]]),
        target=messages["target"][first],
        file=messages["file"][first],
        row=messages["row"][first],
    )
    return Matched(
        published=scope.counted(told_at, published["size"][told], told_within),
        stored=scope.counted(at, messages["size"], within),
        replayed=scope.counted(at, messages["size"], replayed),
        both=scope.counts(told_at[both]),
        archived=durations(archived[~np.isnan(archived)]),
        missing=Places(told_at[lacking], told_idents[lacking], published["file"][missing], published["row"][missing]),
        untold=of_messages(untold),
        untold_stored=stored[untold],
        copies=of_messages(copy),
        copied=addresses(messages["file"][owner], messages["row"][owner]),
        conflicting=_payloads_differ(topic, low, high, copy, owner),
        skewed=of_messages(np.flatnonzero(within & (messages["flags"] & SKEWED > 0))),
        foreign=of_messages(np.flatnonzero(within & _foreign(topic.sources, producers)[messages["source"]])),
        delivered=match_deliveries(topic, scope, low, high, known),
    )


def _payloads_differ(topic: Topic, low: int, high: int | None, copy: Ints, owner: Ints) -> Bools:
    if not len(copy):
        # As it mostly is: then nobody need look at them.
        return np.zeros(0, bool)
    payload = topic.messages.between(low, high, ("payload",))["payload"]
    differ: Bools = payload[copy] != payload[owner]
    return differ


def _firsts(ordered: Ints) -> Bools:
    """Of what is sorted, the first of each value."""
    is_first = np.ones(len(ordered), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return is_first


def _foreign(sources: Sequence[str], producers: frozenset[str] | None) -> Bools:
    """By the number of a source; what has none is not looked at."""
    return np.array([*(producers is not None and source not in producers for source in sources), False])
