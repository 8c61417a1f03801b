"""What the search box shows: features find, the page draws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

#: How many of each kind are shown; the page says when there are more.
MOST = 8


@dataclass(frozen=True)
class Hit:
    """One line of the answer."""

    text: str
    note: str
    href: str


@dataclass(frozen=True)
class HitGroup:
    """Hits of one kind. ``more``: there are further ones that are not shown."""

    title: str
    hits: list[Hit]
    more: bool
    #: Whether the hits are ids, to be set in letters of one width.
    ids: bool = False


def group(title: str, hits: Iterable[Hit], *, ids: bool = False) -> HitGroup:
    """The first :data:`MOST` of ``hits``, of which only one more is looked at: a query should ask for ``MOST + 1``."""
    found = list(islice(hits, MOST + 1))
    return HitGroup(title, found[:MOST], len(found) > MOST, ids)
