"""The permits that one limiter holds, spent in the order in which they run out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from engine.quota.stash import GIL, CountedStash, ListedStash

#: Permits of fewer tokens are not worth asking for the next before they are gone.
SPLIT_FROM = 4

Stash: type[CountedStash] | type[ListedStash] = CountedStash if GIL else ListedStash


@dataclass(slots=True)
class Lot:
    """What is left of a permit and not yet laid out."""

    permit: str
    granted: int
    #: On the node's monotonic clock.
    ends_at: float
    hidden: int


class Purse:
    """Prepaid tokens. Whoever holds the lock of its owner may call its methods; :attr:`out` is taken from by anybody,
    at any time, and without it.

    Half of a permit is laid out first, so that the first who finds nothing there knows that the rest is being begun,
    which is when the next permit must be asked for: nobody counts, or looks at a clock, for each token.
    """

    __slots__ = ("_lots", "out", "void")

    def __init__(self) -> None:
        #: The tokens that lie open; see :mod:`engine.quota.stash`.
        self.out: Any = Stash.of(0)
        #: The permit whose tokens lie open is the first.
        self._lots: deque[Lot] = deque()
        #: Tokens that nobody may spend any more, and nobody has been told of.
        self.void = 0

    def put(self, lot: Lot) -> None:
        """One more permit, which ends no sooner than those before."""
        if lot.hidden > 0:
            self._lots.append(lot)

    def left(self) -> int:
        """What may be spent, all permits together."""
        found = Stash.left(self.out)
        # Not sum() of a generator: this is asked with each request.
        for lot in self._lots:
            found += lot.hidden
        return found

    def first(self) -> Lot | None:
        """The permit that is being spent."""
        return self._lots[0] if self._lots else None

    def left_of_first(self) -> int:
        """What of it may still be spent."""
        return Stash.left(self.out) + self._lots[0].hidden if self._lots else 0

    def ends_at(self) -> float | None:
        """When the first permit ends."""
        return self._lots[0].ends_at if self._lots else None

    def low(self) -> bool:
        """Whether the rest has been begun."""
        return not any(lot.hidden for lot in self._lots)

    def take(self, n: int, now: float) -> bool:
        """All of ``n``, or none."""
        self.expire(now)
        taken: list[tuple[Lot, int]] = []
        short = n
        while short:
            if got := Stash.take(self.out, short):
                taken.append((self._lots[0], got))
                short -= got
            elif not self._lay_out():
                break
        if short:
            self._put_back(taken)
        return not short

    def expire(self, now: float) -> None:
        """Have nobody spend what has ended. (Who reads :attr:`out` just now may still take one token of it.)"""
        while self._lots and self._lots[0].ends_at <= now:
            lot = self._lots.popleft()
            self.void += self._drain() + lot.hidden

    def empty(self) -> int:
        """Take everything away: how much that was."""
        taken = self._drain() + sum(lot.hidden for lot in self._lots)
        self._lots.clear()
        return taken

    def let_all(self) -> None:
        """Lay out more than anybody can take, until :meth:`clear`. (Where there is no such thing, the owner knows.)"""
        self._lots.clear()
        self.out = Stash.endless()

    def clear(self) -> int:
        """End :meth:`let_all`; 0, for nothing of that was anybody's."""
        self.out = Stash.of(0)
        return 0

    def _drain(self) -> int:
        kept, self.out = self.out, Stash.of(0)
        return Stash.take(kept, Stash.left(kept))

    def _lay_out(self) -> bool:
        """Lay out the next tokens, where none lie out any more; whether there are any."""
        while self._lots and not self._lots[0].hidden:
            self._lots.popleft()
        if not self._lots:
            return False
        lot = self._lots[0]
        whole = lot.hidden < lot.granted or lot.granted < SPLIT_FROM
        part = lot.hidden if whole else lot.hidden - lot.hidden // 2
        lot.hidden -= part
        self.out = Stash.of(part)
        return True

    def _put_back(self, taken: list[tuple[Lot, int]]) -> None:
        """What was not enough for somebody is there for others: nothing lies out now, and nothing else is hidden."""
        lots: dict[str, Lot] = {}
        for lot, got in taken:
            lot.hidden += got
            lots[lot.permit] = lot
        # Not laid out: whoever comes next finds it by the slow way, under the lock.
        self._lots = deque(lots.values())
