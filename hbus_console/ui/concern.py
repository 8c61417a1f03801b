"""What needs a person: one thing of it, and what all who look for it share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from hbus_console.access.permissions import Actor, visible_scopes

_Thing = TypeVar("_Thing")
#: How many concerns of one kind are spelled out; the rest is one line.
MOST_OF_A_KIND = 4
#: How long something that happened once stays on the list.
NOTICED_MS = 6 * 3600 * 1000


@dataclass(frozen=True)
class Concern:
    """One sentence, a line of why and since when, and where to go."""

    tone: str
    text: str
    note: str
    href: str
    link: str
    #: Where it stands among those of the same urgency, the smallest first: see :func:`at`.
    place: int = 100

    @property
    def urgency(self) -> int:
        return {"bad": 0, "warn": 1}.get(self.tone, 2)


class Look:
    """One look at what needs ``actor`` now, by all features together.

    What several of them want to know is read once: whoever knows how to read it has a function of a look for it, and
    everybody asks for that by :meth:`once`. ``known`` is what has been read already. Not for several threads.
    """

    def __init__(self, actor: Actor, now_ms: int, known: Mapping[Callable[[Look], Any], Any] | None = None) -> None:
        self.actor = actor
        self.now_ms = now_ms
        self._known = dict(known or {})

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """What ``actor`` may see."""
        return visible_scopes(self.actor)

    def once(self, read: Callable[[Look], _Thing]) -> _Thing:
        """``read(self)``, however often it is asked for."""
        if read not in self._known:
            self._known[read] = read(self)
        found: _Thing = self._known[read]
        return found


def at(place: int, concerns: Iterable[Concern]) -> list[Concern]:
    """``concerns`` with their place in the list."""
    return [replace(concern, place=place) for concern in concerns]


def spell(things: Sequence[_Thing], say: Callable[[_Thing], Concern], more: Concern) -> list[Concern]:
    """A line for each of the first few things, and one for all further ones."""
    lines = [say(thing) for thing in things[:MOST_OF_A_KIND]]
    return [*lines, more] if len(things) > MOST_OF_A_KIND else lines
