"""Who gets the tokens that come: those who were promised some and those who wait, in the order in which they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from engine.quota.purse import Purse
from engine.quota.waiters import Fate, TokenWaiter


class Line:
    """Not thread-safe: its limiter's lock guards it.

    Who is patient and first collects, token by token and permit after permit, until it has all that it waits for: so it
    gets its turn however many come after it who want less. What it has collected counts as spent, and is ``got``.
    """

    __slots__ = ("_waiters", "owed")

    def __init__(self) -> None:
        self._waiters: deque[TokenWaiter] = deque()
        #: What reservations were promised and has not come yet.
        self.owed = 0

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def head(self) -> TokenWaiter | None:
        return self._waiters[0] if self._waiters else None

    def pending(self) -> int:
        """What all of them still need."""
        return self.owed + sum(waiter.n - waiter.got for waiter in self._waiters)

    def join(self, waiter: TokenWaiter) -> None:
        waiter.ahead = self.owed
        self._waiters.append(waiter)

    def leave(self, waiter: TokenWaiter) -> int:
        """It waits no more: what it has collected is somebody else's."""
        self._waiters.remove(waiter)
        return waiter.got

    def forget(self, n: int) -> None:
        """A promise of ``n`` is taken back."""
        self.owed = max(0, self.owed - n)

    def serve(self, purse: Purse, now: float) -> int:
        """Hand out what is there; how much that was."""
        handed = 0
        while True:
            head = self.head
            due = self.owed if head is None else min(self.owed, head.ahead)
            if due:
                paid = purse.take_some(due)
                handed += paid
                self._pay(paid)
                if paid < due:
                    return handed
            if head is None:
                return handed
            wants = head.n - head.got
            got = purse.take_some(wants) if head.patient else wants * purse.take(wants, now)
            head.got += got
            handed += got
            if head.got < head.n:
                return handed
            self.serve_head()

    def serve_head(self) -> None:
        self._waiters.popleft().decide(Fate.SERVED)

    def sift(self, fate_of: Callable[[TokenWaiter], Fate]) -> int:
        """Decide about each; what those had collected who go without."""
        waiting: deque[TokenWaiter] = deque()
        left = 0
        for waiter in self._waiters:
            fate = fate_of(waiter)
            if fate is Fate.WAITING:
                waiting.append(waiter)
                continue
            if fate is not Fate.SERVED:
                left += waiter.got
            waiter.decide(fate)
        self._waiters = waiting
        return left

    def start_over(self) -> None:
        """What they have collected is of buckets that count no more."""
        for waiter in self._waiters:
            waiter.got = 0

    def _pay(self, n: int) -> None:
        self.owed -= n
        for waiter in self._waiters:
            waiter.ahead = max(0, waiter.ahead - n)
