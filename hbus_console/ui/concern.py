"""One thing that needs a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

_Thing = TypeVar("_Thing")
#: How many concerns of one kind are spelled out; the rest is one line.
MOST_OF_A_KIND = 4


@dataclass(frozen=True)
class Concern:
    """One sentence, a line of why and since when, and where to go."""

    tone: str
    text: str
    note: str
    href: str
    link: str

    @property
    def urgency(self) -> int:
        return {"bad": 0, "warn": 1}.get(self.tone, 2)


def spell(things: Sequence[_Thing], say: Callable[[_Thing], Concern], more: Concern) -> list[Concern]:
    """A line for each of the first few things, and one for all further ones."""
    lines = [say(thing) for thing in things[:MOST_OF_A_KIND]]
    return [*lines, more] if len(things) > MOST_OF_A_KIND else lines
