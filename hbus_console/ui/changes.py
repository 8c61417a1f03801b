"""What changed between two looks: names of things, and who has not been told of them yet.

A **mark** is the name of something pages show and a token that differs when something shown about it may differ. The
name is the text of a subject (``subscription:booking.created/billing``) or one of a family (``letters``). Tokens mean
nothing and are only compared with those of the look before.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

#: What is said when nobody knows any more what changed since then.
EVERYTHING = "*"
#: Looks remembered: a stream that was away for as many is told that everything may have changed.
MOST_LOOKS = 150
#: Sets of scopes remembered at once.
MOST_SIGHTS = 64

Scopes = tuple[str, ...]
Marks = Mapping[str, Hashable]


@dataclass
class _Sight:
    """What one set of scopes was told: its marks at the last look, and what changed with each look since ``known``."""

    #: The number of the look before the oldest of ``looks``; what changed until then is not remembered.
    known: int
    marks: Marks
    looks: deque[tuple[int, frozenset[str]]] = field(default_factory=deque)


class Changes:
    """What changed, look by look, for each set of scopes. Numbers of looks grow. Used by one thread at a time."""

    def __init__(self) -> None:
        self._sights: OrderedDict[Scopes, _Sight] = OrderedDict()

    def note(self, number: int, scopes: Scopes, marks: Marks) -> None:
        """Look ``number`` found ``marks`` in ``scopes``."""
        sight = self._sights.get(scopes)
        if sight is None:
            self._sights[scopes] = _Sight(number, marks)
            while len(self._sights) > MOST_SIGHTS:
                self._sights.popitem(last=False)
            return
        self._sights.move_to_end(scopes)
        changed = frozenset(name for name in {*sight.marks, *marks} if sight.marks.get(name) != marks.get(name))
        sight.marks = marks
        sight.looks.append((number, changed))
        if len(sight.looks) > MOST_LOOKS:
            sight.known, _ = sight.looks.popleft()

    def since(self, number: int, scopes: Scopes) -> list[str]:
        """The names that changed after look ``number``; :data:`EVERYTHING` alone when that is not known any more."""
        sight = self._sights.get(scopes)
        if sight is None or number < sight.known:
            return [EVERYTHING]
        return sorted({name for looked, changed in sight.looks if looked > number for name in changed})


def merged(told: Iterable[Marks]) -> dict[str, Hashable]:
    """The marks of several features as one; of a name that several tell, all tokens count."""
    found: dict[str, tuple[Hashable, ...]] = {}
    for place, marks in enumerate(told):
        for name, token in marks.items():
            found[name] = (*found.get(name, ()), place, token)
    return dict(found)
