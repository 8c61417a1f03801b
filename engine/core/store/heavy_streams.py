"""Reading streams of a store a bounded number of bytes at a time, however large what lies in them is.

The store is asked for sizes first, which weigh nothing. Whoever asks it for a number of entries gets them whatever they
weigh, and what the last ones weighed says nothing of the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from engine.core.room import fitting
from engine.core.scripts import load_scripts
from engine.core.store.link import Link


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


At = TypeVar("At", bound=_Ordered)

_MEASURE = load_scripts(files("engine.core.store") / "lua")["measure"]


class StreamRange(NamedTuple):
    """What to read of one stream: the bounds as XRANGE takes them, or XREVRANGE where the newest come first."""

    stream: str
    start: str
    end: str


class StreamEntry(NamedTuple, Generic[At]):
    """One entry: where it lies among all, which of the spans it is of, its id, and name, value, name, value …"""

    at: At
    span: int
    id: str
    flat: Sequence[bytes]


@dataclass(frozen=True)
class FirstEntries(Generic[At]):
    """The first entries of some spans. What went from the store meanwhile is left out, and may be all of it."""

    entries: list[StreamEntry[At]]
    #: Where what was looked at ends, when something lies beyond; ``None``: nothing does.
    goes_on_after: At | None


def first_of(
    link: Link,
    spans: Sequence[StreamRange],
    at: Callable[[int, str], At],
    *,
    limit: int,
    room: int,
    newest_first: bool = False,
) -> FirstEntries[At]:
    """The first entries of all ``spans`` merged: at most ``limit``, and at most ``room`` bytes; a larger one comes
    alone. ``at`` says of a span, by its number, and an id where that lies. Raises as :meth:`Link.run`."""
    found: list[tuple[At, int, str, int]] = []
    #: Beyond the nearest of these something of a span that was not measured to its end may lie.
    reached: list[At] = []
    command = "XREVRANGE" if newest_first else "XRANGE"
    for number, span in enumerate(spans):
        asked = (command, span.start, span.end, limit + 1, room // len(spans))
        ended, *told = link.run(_MEASURE, (span.stream,), asked)
        ids = [each.decode() for each in told[::2]]
        found += [(at(number, id_), number, id_, size) for id_, size in zip(ids, told[1::2], strict=True)]
        if not ended:
            reached.append(found[-1][0])
    found.sort(key=lambda each: each[0], reverse=newest_first)
    if reached:
        nearest = max(reached) if newest_first else min(reached)
        limit = min(limit, 1 + next(index for index, each in enumerate(found) if each[0] == nearest))
    chosen = found[:limit]
    chosen = chosen[: fitting((size for _, _, _, size in chosen), room)]
    goes_on = bool(chosen) and (bool(reached) or len(found) > len(chosen))
    return FirstEntries(_fetched(link, spans, chosen), chosen[-1][0] if goes_on else None)


def _fetched(
    link: Link, spans: Sequence[StreamRange], chosen: Sequence[tuple[At, int, str, int]]
) -> list[StreamEntry[At]]:
    ids: defaultdict[int, list[tuple[At, str]]] = defaultdict(list)
    for place, number, id_, _ in chosen:
        ids[number].append((place, id_))
    flats: dict[tuple[int, str], Sequence[bytes]] = {}
    for number, each in ids.items():
        # Of one stream they lie side by side.
        oldest, newest = sorted((each[0], each[-1]), key=lambda end: end[0])
        for id_, flat in link.command("XRANGE", spans[number].stream, oldest[1], newest[1]):
            flats[number, id_.decode()] = flat
    return [
        StreamEntry(place, number, id_, flats[number, id_])
        for place, number, id_, _ in chosen
        if (number, id_) in flats
    ]
