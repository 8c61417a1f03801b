"""A limiter whose tokens are prepaid by a control plane, and spent without asking anybody."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import TypeVar

from engine.core.errors import BadInput
from engine.quota.held import HeldLimiter
from engine.quota.limiter import REFUSED, LimiterStatus, Reservation, closed_error
from engine.quota.protocol import REFILL_S
from engine.quota.stash import GIL
from engine.quota.waiters import Fate, LoopWaiter, ThreadWaiter, TokenWaiter

_W = TypeVar("_W", ThreadWaiter, LoopWaiter)

#: A first answer, or one after a lull, is waited for so long, in seconds; then it counts as not had.
PATIENCE_S = 0.05


class DistributedLimiter(HeldLimiter):
    """A :class:`~engine.quota.limiter.Limiter` fed by permits; made by a node (:mod:`engine.quota.node`).

    ``allow()`` takes one prepaid token by one step in C. Who finds none asks for a permit and waits for the answer,
    50 ms at most, unless the control plane has said that there is none before some moment; who is not to wait at all
    uses ``wait_async``, or asks with ``reserve(n, 0)``.

    Who comes first is served first: who waits, and what ``reserve`` with a delay has promised, which is what the node's
    share of the limit brings by then, are paid out of the next permits before anybody else gets of them.
    """

    if GIL:

        def allow(self, n: int = 1) -> bool:
            if n == 1:
                # One step of it, which is next(self._purse.out) without the call.
                for _ in self._purse.out:
                    return True
            return self._allow_slowly(n)

    else:

        def allow(self, n: int = 1) -> bool:
            if n == 1:
                try:
                    return bool(self._purse.out.pop())
                except IndexError:
                    pass
            return self._allow_slowly(n)

    def take_some(self, most: int) -> int:
        """Take up to ``most``; how many. Where none is there it waits for one as :meth:`allow` does."""
        got = self._some(most)
        if got or not most:
            return got
        return 1 + self._some(most - 1) if self.allow() else 0

    def _some(self, most: int) -> int:
        with self._lock:
            self._look(most)
            if not self._terms.chain or not most:
                return most
            now = self._clock.monotonic()
            self._expire(now)
            head = self._line.head
            got = 0 if head is not None and head.patient else self._purse.take_some(most)
            if got:
                self._look_ahead()
            elif self._away():
                _, alone = self._source_and_tokens(now)
                n = min(most, most if alone == math.inf else int(alone))
                got = n if n and self._stand_in(n, now) else 0
            self._demand.add(most - got)
            return got

    def _allow_slowly(self, n: int) -> bool:
        with self._lock:
            self._look(n)
            now = self._clock.monotonic()
            if self._never(n):
                return False
            if self._take(n, now):
                return True
            if self._away() or self._again_at > now:
                self._demand.add(n)
                return False
            waiter = ThreadWaiter(n, patient=False)
            self._line.join(waiter)
            self._host.call(self)
        self._clock.wait(waiter.event, PATIENCE_S)
        return self._outcome(waiter)

    def reserve(self, n: int = 1, max_wait: float | None = None) -> Reservation:
        with self._lock:
            self._look(n)
            now = self._clock.monotonic()
            if self._never(n):
                return REFUSED
            if self._take(n, now):
                return Reservation(True, 0.0)
            delay = self._promised_in(n, now)
            if delay > (math.inf if max_wait is None else max_wait) or delay == math.inf:
                self._demand.add(n)
                self._wanted = True
                self._host.call(self)
                return REFUSED
            self._line.owed += n
            self._host.call(self)
            return Reservation(True, delay, _Forget(self, n, now + delay))

    def wait(self, n: int = 1, timeout: float | None = None) -> bool:
        waiter = self._in_line(ThreadWaiter, n, timeout)
        if not isinstance(waiter, ThreadWaiter):
            return waiter
        most = threading.TIMEOUT_MAX
        self._clock.wait(waiter.event, most if timeout is None else min(timeout, most))
        return self._outcome(waiter)

    async def wait_async(self, n: int = 1, timeout: float | None = None) -> bool:
        waiter = self._in_line(LoopWaiter, n, timeout)
        if not isinstance(waiter, LoopWaiter):
            return waiter
        try:
            await asyncio.wait_for(waiter.event.wait(), timeout)
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            self._give_up(waiter)
            raise
        return self._outcome(waiter)

    @property
    def stock(self) -> object:
        """Stands for the buckets that are asked now: whoever may want to refund keeps it from before it takes."""
        return self._purse.stock

    def refund(self, n: int = 1, of: object | None = None) -> None:
        """As :meth:`Limiter.refund <engine.quota.limiter.Limiter.refund>`. ``of`` is the :attr:`stock` of before they
        were taken: if other buckets are asked by now, these are not paid what they have not sold, and it is lost.
        """
        if n < 0:
            raise BadInput(f"{n} tokens cannot be given back.", remedy="Give back 0 or more.", field="n")
        with self._lock:
            if self._asleep and not self.closed:
                self._wake()
            if self._terms.chain and of in (None, self._purse.stock):
                self._void(n)
                # There is something to be had again.
                self._again_at = min(self._again_at, self._sent_at + REFILL_S)

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._wanted, self._line.owed = False, 0
            if self._terms.chain:
                self._purse.empty()
            else:
                self._purse.clear()
            self._void(self._line.sift(lambda waiter: Fate.CLOSED))

    def status(self) -> LimiterStatus:
        with self._lock:
            now = self._clock.monotonic()
            if self._terms.chain:
                self._expire(now)
            return self._status(now)

    def _outcome(self, waiter: TokenWaiter) -> bool:
        with self._lock:
            if waiter.fate is Fate.WAITING:
                self._leave(waiter)
                self._demand.add(waiter.n)
                # No answer in time: what holds for a control plane that is away holds already.
                return not waiter.patient and self._stand_in(waiter.n, self._clock.monotonic())
            if waiter.fate is Fate.CLOSED:
                raise closed_error()
            if waiter.fate is Fate.REFUSED:
                self._demand.add(waiter.n)
            return waiter.fate is Fate.SERVED

    def _give_up(self, waiter: TokenWaiter) -> None:
        """Whoever waited does not want it any more."""
        with self._lock:
            if waiter.fate is Fate.WAITING:
                self._leave(waiter)
            elif waiter.fate is Fate.SERVED:
                self._void(waiter.n)

    def _in_line(self, kind: type[_W], n: int, timeout: float | None) -> _W | bool:
        """One who waits for ``n`` from now on, behind those who came before; or what is known at once."""
        with self._lock:
            self._look(n)
            if self._never(n):
                return False
            now = self._clock.monotonic()
            if not self._line and self._take(n, now):
                return True
            if timeout is not None and timeout <= 0:
                return False
            waiter = kind(n, patient=True)
            self._line.join(waiter)
            # What is there and not enough is for nobody else any more.
            self._serve(now)
            self._host.call(self)
            return waiter

    def _leave(self, waiter: TokenWaiter) -> None:
        """What it had collected goes back."""
        if got := self._line.leave(waiter):
            self._void(got)

    def _never(self, n: int) -> bool:
        return n > self._terms.burst

    def _promised_in(self, n: int, now: float) -> float:
        share = 0.0 if self._last is None or self._away() else self._last.share
        if share <= 0:
            return math.inf
        return max(0.0, self._again_at - now) + (self._line.pending() + n) / share

    def _void(self, n: int) -> None:
        """They go back with the next Want."""
        self._purse.void += n
        self._gone += n
        self._host.call(self)

    def _forget(self, promise: _Forget) -> None:
        with self._lock:
            n, promise.n = promise.n, 0
            if self._clock.monotonic() < promise.due_at:
                self._line.forget(n)


class _Forget:
    """Takes a promise back, once, until it is due; its limiter's lock guards it."""

    __slots__ = ("_limiter", "due_at", "n")

    def __init__(self, limiter: DistributedLimiter, n: int, due_at: float) -> None:
        self._limiter, self.n, self.due_at = limiter, n, due_at

    def __call__(self) -> None:
        self._limiter._forget(self)
