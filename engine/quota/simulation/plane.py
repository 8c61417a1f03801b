"""The control plane: the real allocator, in a memory that may be lost."""

from __future__ import annotations

from collections.abc import Mapping

from engine.quota.allocator import Allocator
from engine.quota.plane import KeptBook
from engine.quota.protocol import Alloc, KeptRule, Want
from engine.quota.simulation.clocks import PlaneClock
from engine.quota.simulation.judging import Judge


class ModelPlane:
    """What a store with the control plane in it does; the judge sees all of it."""

    #: A mistake may be planted in its place.
    allocator: type[Allocator] = Allocator

    def __init__(self, clock: PlaneClock, judge: Judge) -> None:
        self._clock = clock
        self._judge = judge
        self._epoch = 1
        self._allocator = self.allocator(clock(), self._epoch)
        self._book: KeptBook | None = None

    def flush(self) -> None:
        """Forget everything."""
        self._epoch += 1
        self._allocator = self.allocator(self._clock(), self._epoch)
        self._book = None
        self._judge.forgot(self._clock())

    def want(self, want: Want) -> Alloc:
        now = self._clock()
        alloc = self._allocator.want(want, now)
        self._judge.answered(want, alloc, self._epoch, now)
        return alloc

    def keep_rules(self, book: KeptBook, rules: Mapping[str, KeptRule]) -> bool:
        before = self._allocator.version
        kept = self._allocator.keep_rules(book.version, rules)
        if kept:
            self._book = book
        self._judge.ruled(before, self._allocator.version)
        return kept

    def version(self) -> int:
        return self._allocator.version

    def book(self) -> KeptBook | None:
        return self._book
