"""The reader thread: leases deliveries and feeds the workers, never more than they can use."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.bus.consuming.breaker import Breaker
from engine.bus.consuming.feed import Feed
from engine.bus.consuming.health import Backoff, StoreHealth
from engine.bus.consuming.in_flight import InFlight, InFlightTable
from engine.bus.consuming.prefetch import Prefetch
from engine.bus.consuming.recovery import Recovery
from engine.bus.errors import GroupLost
from engine.bus.transport import Delivery, Receiver
from engine.core.clock import Clock
from engine.core.errors import Unavailable

#: The most deliveries asked for at once.
BATCH = 500
#: Seconds one read waits for the first message; bounds how long a stop can be held up.
WAIT_S = 0.5
#: Seconds between two looks while reading is not allowed.
IDLE_S = 0.2
#: How many deliveries may wait for an earlier one of their key before reading stops.
BLOCKED_MOST = 2_000
#: How many decisions may wait for the store before reading stops.
UNSETTLED_MOST = 5_000


class Reader:
    """Reads while it may; hands back what came when it may not any more."""

    def __init__(
        self,
        *,
        receiver: Receiver,
        feed: Feed,
        in_flight: InFlightTable,
        prefetch: Prefetch,
        running: Callable[[], int],
        concurrency: int,
        unsettled: Callable[[], int],
        release: Callable[[list[InFlight]], None],
        lease_s: float,
        recovery: Recovery,
        health: StoreHealth,
        backoff: Backoff,
        clock: Clock,
        stop: threading.Event,
        breaker: Breaker | None = None,
    ) -> None:
        self._receiver = receiver
        self._feed = feed
        self._in_flight = in_flight
        self._prefetch = prefetch
        self._running = running
        #: Handler threads to be fed; may change.
        self.concurrency = concurrency
        self._breaker = breaker
        self._unsettled = unsettled
        self._release = release
        self._lease_s = lease_s
        self._recovery = recovery
        self._health = health
        self._backoff = backoff
        self._clock = clock
        self._stop = stop
        self._resumed = threading.Event()
        self._resumed.set()
        self._pause_done = False
        self._freed = threading.Event()
        self._hungry = False
        self._low_water = 0
        #: How often the loop has come round.
        self.turns = 0
        #: Monotonic seconds of the last turn of the loop.
        self.moved = clock.monotonic()
        #: Whether the store has answered a read since the start.
        self.began = False

    @property
    def paused(self) -> bool:
        return not self._resumed.is_set()

    def pause(self) -> None:
        """Read no more and hand back what nobody has begun."""
        self._resumed.clear()
        self._freed.set()

    def resume(self) -> None:
        """Read again."""
        self._resumed.set()

    def freed(self) -> None:
        """A worker has become free. Called after each delivery, so it costs next to nothing."""
        if self._hungry and self._feed.ready() <= self._low_water:
            self._hungry = False
            self._freed.set()

    def run(self) -> None:
        """The reader thread."""
        while not self._stop.is_set():
            self.moved = self._clock.monotonic()
            try:
                self._turn()
                self._backoff.reset()
            except GroupLost as error:
                self._after_trouble(error)
            except Unavailable as error:
                self._health.away(error)
                self._clock.wait(self._stop, self._backoff.next_s())
            finally:
                self.turns += 1

    def _after_trouble(self, error: GroupLost) -> None:
        try:
            self._recovery.recreate(error)
        except Unavailable as away:
            self._health.away(away)
            self._clock.wait(self._stop, self._backoff.next_s())

    def _turn(self) -> None:
        if self.paused:
            self._rest_while_paused()
            return
        self._pause_done = False
        room = self._room()
        probing = False
        if self._breaker is not None:
            self._breaker.look()
            probing = not self._breaker.closed
            if probing and not self._may_probe(self._breaker):
                self._clock.wait(self._stop, IDLE_S)
                return
            room = 1 if probing else room
        if not room:
            return
        sent = self._clock.monotonic()
        deliveries = self._receiver.receive(room, WAIT_S)
        self.began = True
        self._health.answered()
        if deliveries:
            self._prefetch.weigh(len(deliveries), sum([len(delivery.body) for delivery in deliveries]))
        self._accept(deliveries, sent, probing)

    def _may_probe(self, breaker: Breaker) -> bool:
        """Whether one message may be read although the breaker is not closed."""
        return breaker.probes and not any(held.probe for held in self._in_flight.everything())

    def _accept(self, deliveries: list[Delivery], sent: float, probing: bool = False) -> None:
        now = self._clock.monotonic()
        if deliveries and now - sent > self._lease_s / 3:
            # Nobody knows how much of that time the leases have been running (this process may have been stopped
            # meanwhile): ask, rather than run what another may have by now.
            answers = self._receiver.extend([delivery.receipt for delivery in deliveries])
            deliveries = [delivery for delivery, ours in zip(deliveries, answers, strict=True) if ours]
            sent = now
        fresh = self._in_flight.take(deliveries, sent)
        if not fresh:
            return
        if probing:
            for held in fresh:
                held.probe = True
        # It may have opened while the read was on its way.
        shut = self._breaker is not None and not self._breaker.closed and not probing
        if self._stop.is_set() or self.paused or shut:
            self._release(fresh)
        else:
            self._feed.offer(fresh)

    def _rest_while_paused(self) -> None:
        if not self._pause_done:
            self._pause_done = True
            self._release(self._feed.withdraw())
        self._resumed.wait(IDLE_S)

    def _room(self) -> int:
        """How many to ask for now; 0 after having waited a while for room in vain."""
        room = self._free()
        if room:
            return room
        limit = self._prefetch.limit()
        self._low_water = max(0, limit - _quarter(limit) - self.concurrency)
        self._freed.clear()
        self._hungry = True
        # A worker may have become free before it could see that we are hungry.
        room = self._free()
        if not room:
            self._freed.wait(IDLE_S)
        self._hungry = False
        return room

    def _free(self) -> int:
        limit = self._prefetch.limit()
        room = limit - self._feed.ready() - self._running()
        # Small reads cost as much as large ones: wait until a quarter is free.
        if room < _quarter(limit) or self._feed.blocked() >= BLOCKED_MOST or self._unsettled() >= UNSETTLED_MOST:
            return 0
        return min(room, BATCH)


def _quarter(limit: int) -> int:
    return max(1, limit // 4)
