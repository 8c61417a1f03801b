"""The judge's book of one bucket: what the control plane may sell of it, and what is admitted of what it sold."""

from __future__ import annotations

from collections.abc import Iterator

from engine.quota.allocator import REPAY_S, room
from engine.quota.protocol import KeptRule

#: Sums of fractions are no more exact than that.
INEXACT = 1e-5
#: A clock of the control plane that is further behind than it was is believed, in seconds.
BELIEVED_S = 2.0


class BucketBook:
    """Begins full: so it holds in any window, whatever was saved before. Never reset, whoever forgets what.

    Time is the control plane's, as far as it has not shown it before: a step forward is time that has passed, one back
    is none. Over a change of limit the lesser of both counts, from when the bucket was last asked.
    """

    def __init__(self, name: str, rule: KeptRule, wall: float) -> None:
        self.name = name
        self._room = self._most_room = room(rule)
        self._limit: float | None = rule.limit
        self._seen = wall
        #: What may be sold now; below zero while what was spent without asking is repaid.
        self.tokens = self._room
        #: What came in while it was full, and has paid for nothing yet.
        self._spare = 0.0
        #: All that came in, and all that was admitted of permits.
        self._brought = 0.0
        self._spent = 0
        #: What was sold, and neither spent nor given back; some of it is lost, and nobody knows.
        self._outstanding = 0
        #: The least of what was admitted beyond what came in, and was then outstanding, at any moment.
        self._least = 0.0

    def touch(self, rule: KeptRule, wall: float) -> None:
        """The control plane looks at it under this rule."""
        limit = rule.limit if self._limit is None else min(rule.limit, self._limit)
        self._room = room(rule)
        self._most_room = max(self._most_room, self._room)
        self._pass(limit, wall)
        if self._limit is None:
            # It begins anew, by whatever the clock shows.
            self._seen = wall
        self._limit = rule.limit
        self._pour(0.0)

    def forgot(self, wall: float) -> None:
        """The control plane has lost it, with what was owed, and counts from here."""
        if self._limit is not None:
            self._pass(self._limit, wall)
        self._seen, self._limit = wall, None
        self.tokens = max(0.0, self.tokens)

    def returned(self, n: int) -> None:
        self._pour(n)
        self._outstanding -= n
        self._note()

    def repaid(self, n: int) -> None:
        paid = min(n, self._spare)
        self._spare -= paid
        self.tokens = max(self.tokens - (n - paid), -REPAY_S * (self._limit or 0.0))

    def sold(self, n: int) -> Iterator[str]:
        self._note()
        self._outstanding += n
        self.tokens -= n
        if n and self.tokens < -INEXACT:
            yield f"{n} tokens of {self.name} were sold, and {-self.tokens:.3f} of them were not in it"

    def burnt(self, n: int) -> None:
        """So many that were sold nobody can spend or return any more."""
        self._outstanding -= n
        self._note()

    def spent(self, n: int) -> Iterator[str]:
        """So many were admitted, of permits."""
        self._spent += n
        self._outstanding -= n
        beyond = self._spent - self._brought - self._least
        if beyond > self._most_room + INEXACT:
            yield f"{self.name} admitted {beyond:.3f} in some time beyond what came in and was outstanding"

    def _note(self) -> None:
        self._least = min(self._least, self._spent - self._brought + self._outstanding)

    def _pass(self, limit: float, wall: float) -> None:
        if wall > self._seen:
            brought = limit * (wall - self._seen)
            self._brought += brought
            self._pour(brought)
            self._seen = wall
            self._note()
        elif wall < self._seen - BELIEVED_S:
            self._seen = wall

    def _pour(self, more: float) -> None:
        filled = self.tokens + more
        self.tokens = min(self._room, filled)
        self._spare += filled - self.tokens
