"""What a limiter holds of its control plane's, and what it says to it: one lock, and time from whoever calls.

:class:`~engine.quota.distributed.DistributedLimiter` is this with the doors through which tokens go.
"""

from __future__ import annotations

import math
import random
import threading
from typing import Protocol

from engine.core.clock import Clock
from engine.core.errors import BadInput
from engine.core.ids import new_id
from engine.quota.demand import Demand
from engine.quota.limiter import Glance, LimiterStatus, Narrowest, Source, closed_error
from engine.quota.line import Line
from engine.quota.protocol import LIFETIME_S, MOST_TOKENS, REFILL_S, Alloc, Answer, Want
from engine.quota.purse import Lot, Purse
from engine.quota.standin import StandIns
from engine.quota.terms import Name, OnLoss, Terms
from engine.quota.waiters import Fate, TokenWaiter

#: Who asks for little has so many tokens prepaid for half a permit's life, so that not each costs a Want.
FEW = 16
#: What is prepaid is kept for twice as long as it should last, and for so long at least, in seconds: others want it.
KEEP_S = 3 * REFILL_S
#: Who was not asked for so long may be forgotten, in seconds; longer than any permit lasts, and any answer lets wait.
IDLE_S = 10.0
#: After so long the bucket has brought by far what was spent of it alone, and nobody reports that any more; in seconds.
FORGIVEN_S = 3_600.0
_SOURCES = {OnLoss.FALLBACK: Source.FALLBACK, OnLoss.OPEN: Source.OPEN, OnLoss.CLOSED: Source.CLOSED}


class WantCarrier(Protocol):
    """What carries a limiter's Wants. Thread-safe; its methods may be called under a limiter's lock."""

    @property
    def node(self) -> str: ...

    @property
    def life(self) -> str:
        """Which of the lives of a node of this name it is."""
        ...

    @property
    def version(self) -> int:
        """The version of the rules that it goes by."""
        ...

    @property
    def alone(self) -> StandIns:
        """What it may spend by itself."""
        ...

    def number(self) -> int:
        """One more than the last time."""
        ...

    def wake(self, limiter: HeldLimiter) -> Terms:
        """Somebody came to a limiter that had been forgotten: what it is held to now."""
        ...

    @property
    def away_since(self) -> float | None:
        """Since when the control plane does not answer, on the monotonic clock; ``None`` while it does."""
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
        #: Set by :meth:`~.distributed.DistributedLimiter.close` alone; read with each request.
        self.closed = False
        self._begin()
        if not terms.chain:
            self._purse.let_all()

    def _begin(self) -> None:
        """With nothing, and nothing to tell."""
        self._lock = threading.Lock()
        self._purse = Purse()
        self._line = Line()
        now = self._clock.monotonic()
        self._demand = Demand(now)
        #: What is being asked, when that was first sent, and whether an answer to it may still come.
        self._flight: Want | None = None
        self._sent_at = now
        self._in_air = False
        #: The number of the last Want that was answered. Whoever had this name before has heard all answers to its own.
        self._heard = self._host.number()
        #: Whether more is to be prepaid.
        self._wanted = False
        #: Tokens that came, those that went without being spent, and the spent ones that demand was told of.
        self._had = self._gone = self._counted = 0
        #: Before this no Want brings anything.
        self._again_at = -math.inf
        self._last: Alloc | None = None
        self._narrowest = Narrowest(self._terms.limit, self._terms.burst, self._terms.rule)
        #: What the buckets of the chain had lost when they last answered.
        self._spilled: tuple[float, ...] = ()
        #: Tokens spent by itself that the control plane was not told of.
        self._spent_alone = 0
        self._unknown_rule = False
        #: Whether its node has forgotten it, so that whoever comes must tell.
        self._asleep = False

    @property
    def terms(self) -> Terms:
        """What it is held to now."""
        return self._terms

    @property
    def dozes(self) -> bool:
        """Whether whoever comes next will wake it."""
        return self._asleep

    @property
    def limited(self) -> bool:
        """Whether the control plane knows what it is held to, as far as it has said."""
        return bool(self._terms.chain) and not self._unknown_rule

    def adopt(self, terms: Terms) -> None:
        """Go over to newer terms; older ones change nothing. What is prepaid goes back, or is lost to other rules."""
        with self._lock:
            if not self.closed and terms.version >= self._terms.version:
                self._go_over_to(terms)

    def doze(self, now: float) -> bool:
        """Whether its node may forget it: nobody has come for long, it holds nothing and has nothing to tell. Whoever
        comes wakes it.
        """
        with self._lock:
            if self._terms.chain:
                idle_s = now - self._sent_at
                self._expire(now)
                self._forget_flight(now)
                untold = (self._purse.void or self._spent_alone) and idle_s < FORGIVEN_S
                if idle_s < IDLE_S or self._line or self._line.owed or self._flight or self._purse.left() or untold:
                    return False
                self._wanted = False
            else:
                # Who takes what lies open is not seen.
                self._purse.clear()
            self._asleep = True
            return True

    def forget_parent(self) -> None:
        """In a process that was forked: what it held is the parent's, and so is who waits."""
        self._begin()
        self._asleep = True

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
            if self._away() and (brings := self._brings_at(now)) is not None:
                moments.append(brings)
            if self._wants() and not self._in_air and not self._away():
                moments.append(max(now, self._due_at()))
            return min(moments, default=None)

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
                # Nothing was done.
                self._unknown_rule = alloc.answer in (Answer.UNKNOWN_RULE, Answer.BROKEN)
                if want.born == self._purse.born:
                    self._purse.void += want.returned
                self._spent_alone += want.repaid
                self._again_at = now + 1.0
                self._stand_in_for_waiters(now)
                return
            self._unknown_rule = False
            self._heard = want.number
            self._host.alone.told(want.chain, self._terms.alone, alloc.alone, now)
            self._take_in(want, alloc, now)

    def lost(self, now: float) -> None:
        """There was no answer. It may have been carried out: it is asked again under its id for as long as a permit
        lasts. After that what it returned counts as gone; what it was granted, if it was, the control plane takes back
        with the next one, which says that nobody has heard of it.
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
            self._spent_alone += self._flight.repaid
            self._flight = None

    def _take_in(self, want: Want, alloc: Alloc, now: float) -> None:
        self._last = alloc
        if alloc.rule:
            self._narrowest = self._narrowest.now(alloc.limit, alloc.burst, alloc.rule)
        if not self._spent_alone or alloc.born != self._purse.born:
            self._spilled = alloc.spilled
        self._purse.renew(alloc.born)
        if self.closed:
            self._purse.void += alloc.granted
            self._host.call(self)
            return
        self._had += alloc.granted
        kept_s = min(self._sent_at + alloc.lifetime_s - now, max(KEEP_S, 2 * self._demand.lasts_s(alloc.granted)))
        self._purse.put(Lot(want.id, alloc.granted, now + kept_s, alloc.granted, alloc.born))
        # Each node at its own moment, however many were answered at once.
        self._again_at = (
            self._sent_at + alloc.again_s * (0.8 + 0.4 * self._rng.random()) if alloc.again_s else -math.inf
        )
        self._wanted = False
        self._serve(now)
        if not alloc.again_s:
            # They came since it was asked, and there is more.
            return
        self._line.sift(lambda waiter: Fate.WAITING if waiter.patient else Fate.REFUSED)

    def _take(self, n: int, now: float) -> bool:
        if not self._terms.chain:
            return True
        self._expire(now)
        if self._purse.take(n, now):
            self._look_ahead()
            return True
        if not self._away() or ((head := self._line.head) is not None and head.patient and self._brings_at(now)):
            return False
        return self._stand_in(n, now)

    def _look_ahead(self) -> None:
        """Some was taken: the next permit is asked for before there is none, if somebody will come while it lasts."""
        if self._purse.low() and not self._wanted and self._demand.rate * LIFETIME_S >= 1:
            self._wanted = True
            self._host.call(self)

    def _expire(self, now: float) -> None:
        self._gone += self._purse.expire(now)

    def _stand_in(self, n: int, now: float) -> bool:
        """Without the control plane, as the rule says."""
        terms = self._terms
        if terms.on_loss is OnLoss.CLOSED:
            return False
        if terms.on_loss is OnLoss.FALLBACK and not self._host.alone.take(terms.chain, terms.alone, n, now):
            return False
        self._spent_alone += n
        return True

    def _stand_in_for_waiters(self, now: float) -> None:
        def fate_of(waiter: TokenWaiter) -> Fate:
            if self._stand_in(waiter.n - waiter.got, now):
                return Fate.SERVED
            return Fate.WAITING if waiter.patient else Fate.REFUSED

        self._line.sift(fate_of)

    def _brings_at(self, now: float) -> float | None:
        """When who waits first has what it wants, without the control plane; ``None``: nobody knows."""
        if (head := self._line.head) is None or self._terms.on_loss is not OnLoss.FALLBACK:
            return None
        return self._host.alone.brings_at(self._terms.chain, head.n - head.got, now)

    def _serve(self, now: float) -> None:
        if not self._terms.chain:
            self._line.sift(lambda waiter: Fate.SERVED)
            return
        self._expire(now)
        if self._line.serve(self._purse, now):
            self._look_ahead()
        while self._away() and (head := self._line.head) is not None and self._stand_in(head.n - head.got, now):
            self._line.serve_head()

    def _go_over_to(self, terms: Terms) -> None:
        old, self._terms = self._terms, terms
        if terms == old:
            return
        self._narrowest = self._narrowest.now(terms.limit, terms.burst, terms.rule)
        self._gone += self._purse.empty() if old.chain else self._purse.clear()
        self._again_at = -math.inf
        self._unknown_rule = False
        if old.chain != terms.chain:
            self._last, self._spilled = None, ()
            self._purse.start_over()
            self._line.start_over()
        if not terms.chain:
            # Nobody has to be asked for anything any more, nor told.
            self._flight, self._in_air, self._wanted, self._line.owed = None, False, False, 0
            self._spent_alone = 0
            self._purse.let_all()
        self._serve(self._clock.monotonic())
        self._host.call(self)

    def _wake(self) -> None:
        self._asleep = False
        self._go_over_to(self._host.wake(self))
        if not self._terms.chain:
            self._purse.let_all()

    def _away(self) -> bool:
        return self._unknown_rule or self._host.away_since is not None

    def _asks(self) -> bool:
        return bool(self._line or self._line.owed or self._wanted or self._flight)

    def _wants(self) -> bool:
        return bool(self._asks() or self._purse.void or self._spent_alone)

    def _may_ask(self, now: float, at_once: bool) -> bool:
        if self._away():
            return False
        return self._flight is not None or (self._wants() and (at_once or now >= self._due_at()))

    def _due_at(self) -> float:
        """When to send what it wants. Who only reports does so now and then."""
        return self._again_at if self._asks() else self._sent_at + REFILL_S

    def _new_want(self, now: float) -> Want:
        left = self._purse.left()
        consumed = self._had - self._gone - left
        self._demand.add(consumed - self._counted)
        self._counted = consumed
        rate = self._demand.look(now)
        pending = self._line.pending()
        asked = 0
        if (pending or self._wanted) and not self.closed:
            enough = math.ceil(max(rate * 2 * REFILL_S, min(self._demand.steady * LIFETIME_S / 2, FEW)))
            asked = min(max(enough - left, pending, 1), MOST_TOKENS)
        returned, self._purse.void = self._purse.void, 0
        repaid, self._spent_alone = self._spent_alone, 0
        terms = self._terms
        return Want(
            new_id(self._clock.now_ms()), self._host.node, str(self.name), self.name.person, terms.chain, asked,
            0.0 if self.closed else max(rate, pending / REFILL_S), min(returned, MOST_TOKENS),
            min(repaid, MOST_TOKENS), terms.weight, terms.floor, terms.priority, self._spilled, self._purse.born,
            self._host.life, self._host.number(), self._heard,
        )  # fmt: skip

    def _status(self, now: float) -> LimiterStatus:
        terms, purse, under = self._terms, self._purse, self._narrowest
        first = purse.first() if terms.chain else None
        away = self._host.away_since
        source, tokens = self._source_and_tokens(now)
        return LimiterStatus(
            tokens,
            under.limit,
            under.burst,
            terms.version if self.closed else max(terms.version, self._host.version),
            source,
            first.permit if first is not None else "",
            first.granted if first is not None else 0,
            purse.left_of_first() if first is not None else 0,
            max(0.0, first.ends_at - now) if first is not None else 0.0,
            0.0 if away is None else now - away,
            under.rule,
        )

    def glance(self) -> Glance:
        """What may be taken, as far as is known, and under which rule. Without the lock: others go on meanwhile."""
        left: float = self._purse.left() if self._terms.chain else math.inf
        if not self._away():
            last = self._last
            return left + (last.more if last else 0), self._narrowest
        if not left:
            with self._lock:
                _, left = self._source_and_tokens(self._clock.monotonic())
        return left, self._narrowest

    def _source_and_tokens(self, now: float) -> tuple[Source, float]:
        if not self._terms.chain:
            return Source.LOCAL, math.inf
        left = self._purse.left()
        if left or not self._away():
            return (Source.NONE if self._last is None else Source.PERMIT), left
        on_loss = self._terms.on_loss
        if on_loss is OnLoss.FALLBACK:
            return _SOURCES[on_loss], self._host.alone.tokens(self._terms.chain, now)
        return _SOURCES[on_loss], math.inf if on_loss is OnLoss.OPEN else 0.0

    def _look(self, n: int) -> None:
        if self.closed:
            raise closed_error()
        if not n >= 0:
            raise BadInput(f"{n} tokens cannot be taken.", remedy="Ask for 0 or more.", field="n")
        if self._asleep:
            self._wake()
