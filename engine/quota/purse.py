"""The permits that one limiter holds, spent in the order in which they run out."""

from __future__ import annotations

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
    #: When each of the buckets it came from was made.
    born: tuple[float, ...] = ()


class Purse:
    """Prepaid tokens. Whoever holds the lock of its owner may call its methods; :attr:`out` is taken from by anybody,
    at any time, and without it.

    Half of a permit is laid out first, so that the first who finds nothing there knows that the rest is being begun,
    which is when the next permit must be asked for: nobody counts, or looks at a clock, for each token.
    """

    __slots__ = ("_lots", "born", "out", "stock", "void")

    def __init__(self) -> None:
        #: The tokens that lie open; see :mod:`engine.quota.stash`.
        self.out: Any = Stash.of(0)
        #: The permit whose tokens lie open is the first.
        self._lots: list[Lot] = []
        #: When the buckets were made that are asked now.
        self.born: tuple[float, ...] = ()
        #: Tokens of theirs that nobody may spend any more, and nobody has been told of.
        self.void = 0
        #: Stands for the buckets that are asked now: another object, other buckets.
        self.stock = object()

    def renew(self, born: tuple[float, ...]) -> None:
        """From now on these buckets are asked. What came from others of their names may be spent, and not returned."""
        if born != self.born:
            if self.born:
                self.stock = object()
            self.born, self.void = born, 0

    def start_over(self) -> None:
        """From now on others are asked, of whom nothing is known yet. Nothing of what came before goes back to them."""
        self.stock, self.born, self.void = object(), (), 0

    def put(self, lot: Lot) -> None:
        """One more permit, which is kept as long as those before at least."""
        if lot.hidden > 0:
            if self._lots:
                lot.ends_at = max(lot.ends_at, self._lots[-1].ends_at)
            self._lots.append(lot)

    def left(self) -> int:
        """What may be spent, all permits together. Without the lock it may be a little wrong, and nothing else."""
        found = Stash.left(self.out)
        # A list is copied in one step in every build. Not sum() of a generator: this is asked with each request.
        for lot in self._lots.copy():
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

    def take_some(self, n: int) -> int:
        """Up to ``n``; how many."""
        taken = 0
        while taken < n:
            if got := Stash.take(self.out, n - taken):
                taken += got
            elif not self._lay_out():
                break
        return taken

    def expire(self, now: float) -> int:
        """Have nobody spend what has ended: how much that was. (Who reads :attr:`out` just now may still take one token
        of it.)
        """
        ended = 0
        while self._lots and self._lots[0].ends_at <= now:
            ended += self._end_first()
        return ended

    def empty(self) -> int:
        """End everything: how much that was."""
        ended = 0
        while self._lots:
            ended += self._end_first()
        return ended

    def let_all(self) -> None:
        """Lay out more than anybody can take, until :meth:`clear`. (Where there is no such thing, the owner knows.)"""
        self._lots.clear()
        self.out = Stash.endless()

    def clear(self) -> int:
        """End :meth:`let_all`; 0, for nothing of that was anybody's."""
        self.out = Stash.of(0)
        return 0

    def _end_first(self) -> int:
        lot = self._lots.pop(0)
        kept, self.out = self.out, Stash.of(0)
        left = Stash.take(kept, Stash.left(kept)) + lot.hidden
        if lot.born == self.born:
            self.void += left
        return left

    def _lay_out(self) -> bool:
        """Lay out the next tokens, where none lie out any more; whether there are any."""
        while self._lots and not self._lots[0].hidden:
            self._lots.pop(0)
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
        self._lots = list(lots.values())
