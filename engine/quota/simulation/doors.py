"""The judge's book of one limiter: what its permits allow it to admit, and what it may admit alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from engine.quota.protocol import BucketLink
from engine.quota.simulation.buckets import INEXACT

#: The rates of clocks differ by no more than this share of them.
SKEW = 0.01


@dataclass(slots=True)
class Permit:
    left: int
    #: True time, by the slowest clock there is.
    ends_at: float
    #: When the buckets were made that it is of.
    born: tuple[float, ...] = ()


@dataclass(slots=True)
class Alone:
    """What a process may admit of one bucket by itself: one token at most when it is first asked after an answer of the
    control plane.
    """

    tokens: float = 1.0
    #: Before that nothing came in.
    at: float = 0.0
    rate: float = 0.0
    begun: bool = False

    def take(self, n: int, rate: float, now: float) -> float:
        """How much is missing."""
        self.rate = max(rate, self.rate) if self.begun else self.rate
        brought = self.rate * (now - self.at) * (1 + SKEW)
        if not self.begun:
            self.tokens, self.rate, self.begun = min(1.0, self.tokens + brought), rate, True
        else:
            self.tokens = min(max(1.0, self.rate), self.tokens + brought)
        self.tokens -= n
        self.at = now
        missing = max(0.0, -self.tokens - INEXACT)
        # Told once.
        self.tokens = max(0.0, self.tokens)
        return missing


@dataclass(slots=True)
class Door:
    name: str
    chain: Sequence[BucketLink]
    #: Of which process it is.
    life: str
    #: When each Want that has no answer was sent first.
    sent: dict[str, float] = field(default_factory=dict)
    #: In the order in which they end.
    permits: list[Permit] = field(default_factory=list)
    #: Of permits that have ended, and not returned: of buckets that were made then.
    void: dict[tuple[float, ...], int] = field(default_factory=dict)
    #: Admitted alone, and whoever asked has not been told yet.
    pending_alone: int = 0
    #: Admitted alone, until things went right again, and reported so far.
    alone_before: int = 0
    alone_ever: int = 0
    reported: int = 0

    def asks(self, want_id: str, returned: int, repaid: int, born: tuple[float, ...], now: float) -> Iterator[str]:
        if want_id in self.sent:
            return
        self.sent[want_id] = now
        self.reported += repaid
        self._expire(now)
        void = self.void.get(born, 0)
        of_void = min(void, returned)
        self.void[born] = void - of_void
        if missing := self._take(returned - of_void, [permit for permit in self.permits if permit.born == born]):
            yield f"{self.name} returned {missing} tokens that it had spent, returned before, or never had"

    def comes(self, want_id: str, granted: int, lifetime_s: float, born: tuple[float, ...]) -> None:
        """An answer; the permit lives from when it was asked for."""
        sent_at = self.sent.pop(want_id)
        self.sent.clear()
        if granted:
            self.permits.append(Permit(granted, sent_at + lifetime_s * (1 + SKEW), born))
            self.permits.sort(key=lambda permit: permit.ends_at)

    def refused(self, want_id: str, returned: int, repaid: int, born: tuple[float, ...]) -> None:
        """Nothing of what was asked was done."""
        self.sent.pop(want_id, None)
        self.void[born] = self.void.get(born, 0) + returned
        self.reported -= repaid

    def spends(self, n: int, now: float, late_s: float) -> Iterator[str]:
        """Somebody was admitted by a permit; the clock may have been read ``late_s`` seconds ago."""
        self._expire(now - late_s)
        if missing := self._take(n, list(self.permits)):
            yield f"{self.name} spent {missing} of {n} tokens that no permit in force had"

    def outstanding(self) -> int:
        return sum(self.void.values()) + sum(permit.left for permit in self.permits)

    def _expire(self, now: float) -> None:
        while self.permits and self.permits[0].ends_at < now:
            ended = self.permits.pop(0)
            self.void[ended.born] = self.void.get(ended.born, 0) + ended.left

    def _take(self, n: int, permits: Sequence[Permit]) -> int:
        """Of these, those that end first; how many there were not."""
        for permit in permits:
            taken = min(n, permit.left)
            n -= taken
            permit.left -= taken
            if not permit.left:
                self.permits.remove(permit)
        return n
