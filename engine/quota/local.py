"""A token bucket for one process."""

from __future__ import annotations

import asyncio
import math

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput
from engine.quota.baton import Baton
from engine.quota.bucket import Bucket
from engine.quota.limiter import REFUSED, LimiterStatus, Reservation, Source, closed_error
from engine.quota.waiting import Gate


class LocalLimiter:
    """A :class:`~engine.quota.limiter.Limiter` of ``limit`` tokens a second, of which ``burst`` may go at once.

    Begins full. The clock is read while nobody else is at the bucket, so that threads which wait for it cannot carry an
    old time into it. Limits are numbers from 0, the limit also infinite: everything passes then.
    """

    __slots__ = ("_bucket", "_clock", "_closed", "_gate", "_give", "_monotonic", "_run", "_take", "_version")

    def __init__(self, limit: float, burst: float, *, clock: Clock | None = None, version: int = 0) -> None:
        self._clock = clock or SystemClock()
        self._monotonic = self._clock.monotonic
        baton = Baton()
        self._take, self._give, self._run = baton.take, baton.give, baton.run
        self._gate = Gate(self._clock)
        self._closed = False
        self._version = version
        self._bucket = Bucket(checked("limit", limit), checked("burst", burst), self._monotonic())
        _checked_together(limit, burst)

    def allow(self, n: int = 1) -> bool:
        # Baton.run and Bucket.take spelt out: calling them would double the price.
        mine = True
        try:
            try:
                self._take()
            except IndexError:
                mine = False
            else:
                now = self._monotonic()
                bucket = self._bucket
                tokens = bucket.tokens
                last = bucket.last
                if now > last:
                    tokens += (now - last) * bucket.limit
                    if tokens > bucket.burst:  # noqa: PLR1730 - calling min() costs a third of the whole
                        tokens = bucket.burst
                    bucket.last = now
                if n == 1 and tokens >= 1.0 and not self._closed:
                    bucket.tokens = tokens - 1.0
                    return True
                bucket.tokens = tokens
                return self._allow(n, now)
        finally:
            if mine:
                self._give(None)
        return self._run(self._allow, n)

    def reserve(self, n: int = 1, max_wait: float | None = None) -> Reservation:
        return self._run(self._reserve, n, math.inf if max_wait is None else max(0.0, max_wait))

    def wait(self, n: int = 1, timeout: float | None = None) -> bool:
        reservation = self.reserve(n, timeout)
        if reservation.ok and reservation.delay_s > 0 and self._gate.sleep(reservation.delay_s):
            reservation.cancel()
            raise closed_error()
        return reservation.ok

    async def wait_async(self, n: int = 1, timeout: float | None = None) -> bool:
        reservation = self.reserve(n, timeout)
        if reservation.ok and reservation.delay_s > 0:
            try:
                closed = await self._gate.sleep_async(reservation.delay_s)
            except asyncio.CancelledError:
                reservation.cancel()
                raise
            if closed:
                reservation.cancel()
                raise closed_error()
        return reservation.ok

    def refund(self, n: int = 1) -> None:
        if not n >= 0:
            raise BadInput(f"{n} tokens cannot be given back.", remedy="Give back 0 or more.", field="n")
        self._run(lambda: self._bucket.put_back(n, self._monotonic()))

    def set_limit(self, limit: float) -> None:
        """From now on so many a second. Reservations keep what they were told."""
        limit = checked("limit", limit)
        self._run(lambda: self._bucket.set_limit(limit, self._monotonic()))

    def set_burst(self, burst: float) -> None:
        """From now on so many at once; what is saved beyond it is gone."""
        burst = checked("burst", burst)
        self._run(lambda: self._bucket.set_burst(burst, self._monotonic()))

    def apply(self, limit: float, burst: float, version: int) -> bool:
        """Go over to a newer version of the rule, with what is saved; ``False`` for one that is not newer: it is
        left alone, however late it comes.
        """
        _checked_together(limit, burst)
        return self._run(self._apply, checked("limit", limit), checked("burst", burst), version)

    def tokens(self) -> float:
        """How many are there; below zero while reservations wait."""
        return self._run(lambda: self._bucket.at(self._monotonic()))

    def close(self) -> None:
        self._run(self._close)
        self._gate.close()

    def status(self) -> LimiterStatus:
        return self._run(self._status)

    # While nobody else is at the bucket.

    def _allow(self, n: int, now: float | None = None) -> bool:
        self._look(n)
        return self._bucket.take(n, self._monotonic() if now is None else now)

    def _reserve(self, n: int, max_wait: float) -> Reservation:
        self._look(n)
        delay = self._bucket.reserve(n, self._monotonic(), max_wait)
        if delay is None:
            return REFUSED
        return Reservation(True, delay, _Return(self, n, self._bucket.last + delay))

    def _apply(self, limit: float, burst: float, version: int) -> bool:
        if version <= self._version:
            return False
        now = self._monotonic()
        self._bucket.set_limit(limit, now)
        self._bucket.set_burst(burst, now)
        self._version = version
        return True

    def _close(self) -> None:
        self._closed = True

    def _status(self) -> LimiterStatus:
        bucket = self._bucket
        return LimiterStatus(bucket.at(self._monotonic()), bucket.limit, bucket.burst, self._version, Source.LOCAL)

    def _look(self, n: int) -> None:
        if self._closed:
            raise closed_error()
        if not n >= 0:
            raise BadInput(f"{n} tokens cannot be taken.", remedy="Ask for 0 or more.", field="n")

    def _return(self, taken: _Return) -> None:
        n, taken.n = taken.n, 0
        if n:
            self._bucket.give_back(n, taken.act_at, self._monotonic())


class _Return:
    """Gives a reservation back, once: while nobody else is at the bucket, and so at this."""

    __slots__ = ("_limiter", "act_at", "n")

    def __init__(self, limiter: LocalLimiter, n: int, act_at: float) -> None:
        self._limiter = limiter
        self.n = n
        self.act_at = act_at

    def __call__(self) -> None:
        self._limiter._run(self._limiter._return, self)


def checked(field: str, value: float) -> float:
    """``value``, which is a number from 0; raises ``BadInput`` for ``field`` otherwise."""
    if not value >= 0:
        raise BadInput(f"A {field} of {value} cannot be kept.", remedy="Use a number from 0.", field=field)
    # Sums of one kind of number are found faster than of two.
    return float(value)


def _checked_together(limit: float, burst: float) -> None:
    if burst == math.inf and limit != math.inf:
        raise BadInput("An infinite burst limits nothing.", remedy="Say an infinite limit.", field="burst")
