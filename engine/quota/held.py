"""What a limiter holds of its control plane's, and what it says to it: one lock, and time from whoever calls.

:class:`~engine.quota.distributed.DistributedLimiter` is this with the doors through which tokens go.
"""

from __future__ import annotations

import math
import random
import threading
from collections import deque
from dataclasses import replace
from typing import Protocol

from engine.core.clock import Clock
from engine.core.errors import BadInput
from engine.core.ids import new_id
from engine.quota.common import CommonStandIns
from engine.quota.demand import Demand
from engine.quota.limiter import Closed, Glance, LimiterStatus, Source
from engine.quota.protocol import LIFETIME_S, MOST_TOKENS, REFILL_S, Alloc, Answer, Want
from engine.quota.purse import Lot, Purse
from engine.quota.standin import StandIn
from engine.quota.terms import Name, OnLoss, Terms
from engine.quota.waiters import Fate, TokenWaiter

#: Who asks for little has so many tokens prepaid for half a permit's life, so that not each costs a Want.
FEW = 16


class WantCarrier(Protocol):
    """What carries a limiter's Wants. Thread-safe; its methods may be called under a limiter's lock."""

    @property
    def node(self) -> str: ...

    @property
    def away_since(self) -> float | None:
        """Since when the control plane does not answer, on the monotonic clock; ``None`` while it does."""
        ...

    @property
    def common(self) -> CommonStandIns:
        """What all its limiters may spend together by themselves, of limits that tenants share."""
        ...

    def call(self, limiter: HeldLimiter) -> None:
        """Have this limiter asked what it wants, soon."""
        ...


class HeldLimiter:
    """Permits, those who wait for them, and the Want that is under way. Thread-safe."""

    def __init__(
        self, name: Name, terms: Terms, host: WantCarrier, clock: Clock, rng: random.Random | None = None
    ) -> None:
        self.name = name
        self._terms = terms
        self._host = host
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - it spreads, and hides nothing
        self._lock = threading.Lock()
        self._closed = False
        self._purse = Purse()
        self._waiters: deque[TokenWaiter] = deque()
        now = clock.monotonic()
        self._demand = Demand(now)
        #: What is being asked, when that was first sent, and whether an answer to it may still come.
        self._flight: Want | None = None
        self._sent_at = 0.0
        self._in_air = False
        #: Whether more is to be prepaid.
        self._wanted = False
        #: Tokens that came, those that went without being spent, and the spent ones that demand was told of.
        self._had = self._gone = self._counted = 0
        #: Before this no Want brings anything.
        self._again_at = -math.inf
        self._last: Alloc | None = None
        #: What the buckets of the chain had lost when they last answered.
        self._spilled: tuple[float, ...] = ()
        #: What reservations were promised and has not come yet.
        self._owed = 0
        self._without = StandIn()
        self._unknown_rule = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def terms(self) -> Terms:
        """What it is held to now."""
        return self._terms

    @property
    def told_alone(self) -> float | None:
        """Tokens a second that it may spend alone, as the control plane has told; ``None``: it was never answered."""
        return None if self._last is None else min(self._terms.fallback, self._last.fallback)

    @property
    def limited(self) -> bool:
        """Whether the control plane knows what it is held to, as far as it has said."""
        return bool(self._terms.chain) and not self._unknown_rule

    def adopt(self, terms: Terms) -> None:
        """Go over to newer terms; older ones change nothing. What is prepaid goes back, or is lost to other rules."""
        with self._lock:
            if self._closed or terms.version < self._terms.version or terms == self._terms:
                return
            old, self._terms = self._terms, terms
            if replace(terms, version=old.version) == old:
                # Another rule has changed: what is prepaid stays so.
                return
            held = self._purse.empty() if old.chain else self._purse.clear()
            self._gone += held
            self._purse.void = self._purse.void + held if old.chain == terms.chain else 0
            self._again_at = -math.inf
            self._unknown_rule = False
            if old.chain != terms.chain:
                self._last, self._spilled = None, ()
                self._without.end()
            if not terms.chain:
                # Nobody has to be asked for anything any more, nor told.
                self._flight, self._in_air, self._wanted, self._owed, self._purse.void = None, False, False, 0, 0
                self._without.report()
                self._purse.let_all()
            self._serve(self._clock.monotonic())
            self._host.call(self)

    def tick(self, now: float, *, at_once: bool = False, probing: bool = False) -> Want | None:
        """Do what is due; what is to be asked now, to be answered with :meth:`told` or :meth:`lost`.

        ``at_once``: whatever it wants, though it is not due yet. ``probing``: in any case, for whether the control
        plane takes a Want.
        """
        with self._lock:
            if not self._terms.chain:
                self._serve(now)
                return None
            self._expire(now)
            self._serve(now)
            self._forget_flight(now)
            if self._unknown_rule and now >= self._again_at:
                self._unknown_rule = False
            if self._in_air or (not probing and not self._may_ask(now, at_once)):
                return None
            if self._flight is None:
                self._flight, self._sent_at = self._new_want(now), now
            self._in_air = True
            return self._flight

    def next_at(self, now: float) -> float | None:
        """When :meth:`tick` has something to do, if nobody comes meanwhile."""
        with self._lock:
            if not self._terms.chain:
                return None
            moments = []
            if (ends_at := self._purse.ends_at()) is not None:
                moments.append(ends_at)
            if self._unknown_rule:
                moments.append(max(now, self._again_at))
            if (
                self._waiters
                and self._away()
                and (brings := self._without.brings_at(self._waiters[0].n, now)) is not None
            ):
                moments.append(brings)
            if self._wants() and not self._in_air and not self._away():
                moments.append(max(now, self._due_at()))
            return min(moments, default=None)

    @property
    def idle(self) -> bool:
        """Whether it holds nothing, owes nothing and wants nothing."""
        with self._lock:
            return not (self._wants() or self._in_air or (self._terms.chain and self._purse.left()))

    @property
    def spent(self) -> int:
        """Tokens of permits so far; of one that nothing limits always 0."""
        with self._lock:
            return self._had - self._gone - self._purse.left() if self._terms.chain else 0

    def try_again(self) -> None:
        """The control plane may know the rules by now."""
        with self._lock:
            self._unknown_rule = False
            self._again_at = -math.inf
            self._host.call(self)

    def told(self, alloc: Alloc, now: float) -> None:
        """The answer to what :meth:`tick` gave."""
        with self._lock:
            want = self._flight
            if want is None or want.id != alloc.id:
                return
            self._flight, self._in_air = None, False
            if want.chain != self._terms.chain:
                # It was about rules that apply no more: nothing of it is spent, and nothing goes back to others.
                self._host.call(self)
                return
            if alloc.answer is not Answer.GRANTED:
                self._unknown_rule = True
                self._purse.void += want.returned
                self._without.spent += want.repaid
                self._again_at = now + 1.0
                self._stand_in_for_waiters(now)
                return
            self._unknown_rule = False
            self._without.end()
            self._take_in(want, alloc, now)

    def lost(self, now: float) -> None:
        """There was no answer. It may have been carried out: it is asked again under its id as long as the control
        plane remembers that, and what it returned and was granted counts as gone after that.
        """
        with self._lock:
            self._in_air = False
            self._forget_flight(now)
            self._stand_in_for_waiters(now)

    def lost_if_in_air(self, now: float) -> None:
        """As :meth:`lost`, where neither that nor :meth:`told` came."""
        if self._in_air:
            self.lost(now)

    # Under the lock.

    def _forget_flight(self, now: float) -> None:
        """Asked again later than that, it would be taken for another."""
        if self._flight is not None and not self._in_air and now - self._sent_at >= LIFETIME_S:
            self._without.spent += self._flight.repaid
            self._flight = None

    def _take_in(self, want: Want, alloc: Alloc, now: float) -> None:
        self._last = alloc
        if not self._without.spent:
            self._spilled = alloc.spilled
        granted = alloc.granted
        if self._closed:
            self._purse.void += granted
            self._host.call(self)
            return
        paid = min(self._owed, granted)
        self._owed -= paid
        self._had += granted
        self._purse.put(Lot(want.id, granted, self._sent_at + alloc.lifetime_s, granted - paid))
        # Each node at its own moment, however many were answered at once.
        self._again_at = (
            self._sent_at + alloc.again_s * (0.8 + 0.4 * self._rng.random()) if alloc.again_s else -math.inf
        )
        self._wanted = False
        self._serve(now)
        if not alloc.again_s:
            # They came since it was asked, and there is more.
            return
        for waiter in [waiter for waiter in self._waiters if not waiter.patient]:
            self._waiters.remove(waiter)
            waiter.decide(Fate.REFUSED)

    def _take(self, n: int, now: float) -> bool:
        if not self._terms.chain:
            return True
        self._expire(now)
        if self._purse.take(n, now):
            if self._purse.low() and not self._wanted:
                self._wanted = True
                self._host.call(self)
            return True
        return self._away() and self._stand_in(n, now)

    def _expire(self, now: float) -> None:
        void = self._purse.void
        self._purse.expire(now)
        self._gone += self._purse.void - void

    def _stand_in(self, n: int, now: float) -> bool:
        """Without the control plane, as the rule says."""
        terms, last = self._terms, self._last
        # The control plane may know fewer nodes than there are: its memory is young, or some have not asked.
        rate = terms.fallback if last is None else min(terms.fallback, last.fallback)
        return self._common_allows(n, now) and (
            self._without.spend(n, now, terms.on_loss, rate) or self._common_back(n, now)
        )

    def _common_allows(self, n: int, now: float) -> bool:
        """Take ``n`` of what the node may spend of each shared limit, or of none."""
        terms, common = self._terms, self._host.common
        if terms.on_loss is not OnLoss.FALLBACK:
            return True
        rules = shared_rules(terms)
        for place, rule in enumerate(rules):
            if not common.take(rule, n, now, terms.fallback):
                for taken in rules[:place]:
                    common.put_back(taken, n, now)
                return False
        return True

    def _common_back(self, n: int, now: float) -> bool:
        if self._terms.on_loss is OnLoss.FALLBACK:
            for rule in shared_rules(self._terms):
                self._host.common.put_back(rule, n, now)
        return False

    def _stand_in_for_waiters(self, now: float) -> None:
        waiting: deque[TokenWaiter] = deque()
        for waiter in self._waiters:
            if self._stand_in(waiter.n, now):
                waiter.decide(Fate.SERVED)
            elif waiter.patient:
                waiting.append(waiter)
            else:
                waiter.decide(Fate.REFUSED)
        self._waiters = waiting

    def _serve(self, now: float) -> None:
        while self._waiters and self._take(self._waiters[0].n, now):
            self._waiters.popleft().decide(Fate.SERVED)

    def _away(self) -> bool:
        return self._unknown_rule or self._host.away_since is not None

    def _asks(self) -> bool:
        return bool(self._waiters or self._owed or self._wanted or self._flight)

    def _wants(self) -> bool:
        return bool(self._asks() or self._purse.void or self._without.spent)

    def _may_ask(self, now: float, at_once: bool) -> bool:
        if self._away():
            return False
        return self._flight is not None or (self._wants() if at_once else self._due(now))

    def _due_at(self) -> float:
        """When to send what it wants. Who only reports does so now and then."""
        return self._again_at if self._asks() else self._sent_at + REFILL_S

    def _due(self, now: float) -> bool:
        return self._wants() and now >= self._due_at()

    def _new_want(self, now: float) -> Want:
        left = self._purse.left()
        consumed = self._had - self._gone - left
        self._demand.add(consumed - self._counted)
        self._counted = consumed
        rate = self._demand.look(now)
        pending = self._owed + sum(waiter.n for waiter in self._waiters)
        asked = 0
        if (pending or self._wanted) and not self._closed:
            enough = math.ceil(max(rate * 2 * REFILL_S, min(rate * LIFETIME_S / 2, FEW)))
            asked = min(max(enough - left, pending, 1), MOST_TOKENS)
        returned, self._purse.void = self._purse.void, 0
        repaid = self._without.report()
        terms = self._terms
        return Want(
            new_id(self._clock.now_ms()), self._host.node, str(self.name), self.name.tenant, terms.chain, asked,
            0.0 if self._closed else max(rate, pending / REFILL_S), min(returned, MOST_TOKENS),
            min(repaid, MOST_TOKENS), terms.weight, terms.floor, terms.priority, self._spilled,
        )  # fmt: skip

    def _status(self, now: float) -> LimiterStatus:
        terms, last, purse = self._terms, self._last, self._purse
        first = purse.first() if terms.chain else None
        limit, burst = (last.limit, last.burst) if last is not None else (terms.limit, terms.burst)
        away = self._host.away_since
        source, tokens = self._source_and_tokens(now)
        return LimiterStatus(
            tokens,
            limit,
            burst,
            terms.version,
            source,
            first.permit if first is not None else "",
            first.granted if first is not None else 0,
            purse.left_of_first() if first is not None else 0,
            max(0.0, first.ends_at - now) if first is not None else 0.0,
            0.0 if away is None else now - away,
            last.rule if last is not None and last.rule else next((link.rule for link in terms.chain), ""),
        )

    def glance(self) -> Glance:
        """What may be taken at once, of how much, under which rule."""
        with self._lock:
            terms, last = self._terms, self._last
            left: float = self._purse.left() if terms.chain else math.inf
            if not left and self._away():
                left = self._without.tokens(terms.on_loss, self._clock.monotonic())
            if last is not None and last.rule:
                return Glance(left, last.limit, last.burst, last.rule)
            return Glance(left, terms.limit, terms.burst, terms.chain[0].rule if terms.chain else "")

    def _source_and_tokens(self, now: float) -> tuple[Source, float]:
        if not self._terms.chain:
            return Source.LOCAL, math.inf
        left = self._purse.left()
        if left or not self._away():
            return (Source.NONE if self._last is None else Source.PERMIT), left
        return self._without.source(self._terms.on_loss), self._without.tokens(self._terms.on_loss, now)

    def _look(self, n: int) -> None:
        if self._closed:
            raise closed_error()
        if not n >= 0:
            raise BadInput(f"{n} tokens cannot be taken.", remedy="Ask for 0 or more.", field="n")


def closed_error() -> Closed:
    return Closed("This limiter was closed.", remedy="Ask for a new one.")


def shared_rules(terms: Terms) -> list[str]:
    """The rules of the chain whose bucket tenants share."""
    return [link.rule for link in terms.chain if not link.owner]
