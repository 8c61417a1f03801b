"""The door of whoever does something for somebody: asks the limiter, its shadow, and counts what came of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from engine.quota.limiter import Glance, Limiter, LimiterStatus
from engine.quota.seating import SeatRules
from engine.quota.seats import FREE, Seated, SeatKeeper
from engine.quota.terms import Terms
from engine.quota.uses import Key, Uses

#: What is told to come again is told no later than this, in seconds, unless a calendar period ends later.
_LATEST_S = 60.0


class HeldByRules(Limiter, Protocol):
    """A limiter that knows what it is held to."""

    @property
    def terms(self) -> Terms: ...

    def glance(self) -> Glance: ...

    def take_some(self, most: int) -> int: ...

    @property
    def stock(self) -> object: ...

    def refund(self, n: int = 1, of: object | None = None) -> None: ...


class LimiterSource(Protocol):
    """Where limiters are had: a :class:`~engine.quota.node.QuotaNode`."""

    def limiter(self, service: str, resource: str, tenant: str, *, shadow: bool = False) -> HeldByRules: ...

    @property
    def shadows(self) -> bool:
        """Whether any rule only counts."""
        ...

    @property
    def seats(self) -> bool:
        """Whether any rule says how many may be at work at once."""
        ...


class Admission(NamedTuple):
    """What became of one who asked."""

    ok: bool
    #: When it is worth asking again, in seconds; 0 where it was admitted.
    again_s: float = 0.0
    #: How the limiter stands, and which rule lets the least through; ``None`` where nobody need know.
    status: LimiterStatus | None = None

    @property
    def rule(self) -> str:
        return "" if self.status is None else self.status.rule


ADMITTED = Admission(True)


class QuotaGate:
    """Thread-safe. Raises :class:`~engine.core.errors.BadInput` for a name that no limiter can have."""

    def __init__(
        self,
        limiters: LimiterSource,
        uses: Uses,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        seats: tuple[SeatKeeper, SeatRules] | None = None,
    ) -> None:
        self._seats = seats
        self._limiters = limiters
        #: Whom :meth:`ask` asks: of one that is asked again soon the lookup is spared.
        self.limiter = limiters.limiter
        self._uses = uses
        self._now_ms = now_ms

    def admit(self, service: str, resource: str, tenant: str, n: int = 1) -> Admission:
        """Take ``n`` tokens if they are there now."""
        return self.ask(self.limiter(service, resource, tenant), (service, resource, tenant), n)

    def ask(self, limiter: HeldByRules, key: Key, n: int = 1) -> Admission:
        """As :meth:`admit`, of the limiter of that name."""
        ok = limiter.allow(n)
        shadowed = self._limiters.shadows and ok and not self._shadow(*key, n)
        if ok and not shadowed:
            self._uses.admitted(key, n)
            return ADMITTED
        self._uses.count(key, n * ok, 0, n * (not ok), n * shadowed)
        return ADMITTED if ok else self._refusal(limiter, n)

    def some(self, limiter: HeldByRules, key: Key, most: int, *, waited: bool = False) -> int:
        """Take as many of ``most`` tokens as are there now, as whoever goes on by itself does; ``waited``: they were
        waited for.
        """
        n = limiter.take_some(most)
        if n:
            shadowed = n if self._limiters.shadows and not self._shadow(*key, n) else 0
            self._uses.count(key, n, n if waited else 0, 0, shadowed)
        return n

    def again_s(self, limiter: HeldByRules, n: int = 1) -> float:
        """When ``n`` tokens may be there, in seconds."""
        return self._again_s(limiter.terms, limiter.status(), n)

    def enter(self, service: str, resource: str, tenant: str) -> Seated:
        """Take a seat of each rule that says how many may be at work at once, or none; leave it after the work."""
        if self._seats is None or not self._limiters.seats:
            return FREE
        keeper, rules = self._seats
        links = rules.links(service, resource, tenant)
        if not links:
            return FREE
        seated = keeper.enter(links)
        self._uses.count((service, resource, tenant), 0, 0, not seated.ok, seated.shadowed)
        return seated

    def take_back(self, limiter: HeldByRules, key: Key, n: int, stock: object) -> None:
        """Give back what was taken for an act that was not done after all; ``stock`` is the limiter's of before."""
        limiter.refund(n, stock)
        self._uses.count(key, -n)

    def _shadow(self, service: str, resource: str, tenant: str, n: int) -> bool:
        return self.limiter(service, resource, tenant, shadow=True).allow(n)

    def _refusal(self, limiter: HeldByRules, n: int) -> Admission:
        status = limiter.status()
        return Admission(False, self._again_s(limiter.terms, status, n), status)

    def _again_s(self, terms: Terms, status: LimiterStatus, n: int) -> float:
        ends_ms = min((link.ends_ms for link in terms.chain if link.ends_ms), default=0)
        rate = terms.limit
        if any(not link.ends_ms for link in terms.chain) and rate > 0 and math.isfinite(rate):
            return min(_LATEST_S, max(0.0, n - status.tokens) / rate)
        return max(0.0, (ends_ms - self._now_ms()) / 1000) if ends_ms else _LATEST_S
