"""Reading: the loop that leases deliveries, and how many it may ask for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from engine.bus.consuming.breaker import Breaker
from engine.bus.consuming.dispatch import InFlight, Prefetch
from engine.bus.consuming.paced import PacedReads
from engine.bus.consuming.probing import Probing, Taker
from engine.bus.consuming.recovery import Recovery
from engine.bus.consuming.scope import ConsumerScope
from engine.bus.consuming.settler import Settler
from engine.bus.errors import GroupLost
from engine.bus.optional import TellsVanished
from engine.bus.partitions import PartitionedReceiver
from engine.bus.transport import Delivery
from engine.core.errors import Unavailable
from engine.core.pacing import Pacing

#: The most deliveries asked for at once.
BATCH = 500
#: Seconds one read waits for the first message; bounds how long a stop can be held up.
WAIT_S = 0.5
#: Seconds between two looks while reading is not allowed.
IDLE_S = 0.2
#: Likewise while partitions are left out of what is read: their messages in hand may all be handled meanwhile.
CROWDED_WAIT_S = 0.05
#: How many decisions may wait for the store before reading stops.
UNSETTLED_MOST = 5_000

_log = logging.getLogger(__name__)


class Reader:
    """Reads while it may; hands back what came when it may not any more."""

    def __init__(
        self,
        scope: ConsumerScope,
        *,
        settler: Settler,
        recovery: Recovery,
        breaker: Breaker | None,
        running: Callable[[], int],
        pacing: Pacing | None = None,
    ) -> None:
        self._scope = scope
        self._clock = scope.clock
        self._health = scope.health
        self._dispatcher = scope.dispatcher
        self._settler = settler
        self._recovery = recovery
        self._breaker = breaker
        #: How many handlers run now.
        self._running = running
        self._backoff = scope.backoff()
        self._paced = None if pacing is None else PacedReads(scope, pacing)
        self.prefetch = Prefetch(scope.policy.concurrency)
        self._probing = Probing(scope, self.prefetch, settler, read=self._read, offer=self._offer)
        self._resumed = threading.Event()
        self._resumed.set()
        self._pause_done = False
        self._freed = threading.Event()
        #: Whether it waits to be told by :meth:`freed`.
        self.hungry = False
        self._low_water = 0
        #: How often the loop has come round.
        self.turns = 0
        #: Monotonic seconds of the last turn of the loop.
        self.moved = scope.clock.monotonic()
        self._partitions = scope.receiver if isinstance(scope.receiver, PartitionedReceiver) else None
        self._vanishing = scope.receiver if isinstance(scope.receiver, TellsVanished) else None
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
        """A worker has become free. Need not be called while nobody is hungry."""
        if self.hungry and self._dispatcher.ready() <= self._low_water:
            self.hungry = False
            self._freed.set()

    def run(self) -> None:
        """The reader thread."""
        while not self._scope.stop.is_set():
            self.moved = self._clock.monotonic()
            try:
                self._turn()
                self._backoff.reset()
            except GroupLost as error:
                self._after_trouble(error)
            except Unavailable as error:
                self._health.away(error)
                self._clock.wait(self._scope.stop, self._backoff.next_s())
            finally:
                self.turns += 1

    def _after_trouble(self, error: GroupLost) -> None:
        try:
            self._recovery.recreate(error)
        except Unavailable as away:
            self._health.away(away)
            self._clock.wait(self._scope.stop, self._backoff.next_s())

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
                self._clock.wait(self._scope.stop, IDLE_S)
                return
            room = 1 if probing else room
        if not room or not self._dispatcher.begin_read(IDLE_S):
            return
        if self._paced is not None and not (room := self._paced.ask(room)):
            return
        if not probing:
            self._read(room, WAIT_S, self._offer, self._paced)
        elif self._paced is None:
            self._probing.one()
        else:
            self._paced.read(room, self._probing.one)

    def _read(self, room: int, longest_s: float, take: Taker, paced: PacedReads | None = None) -> None:
        """Read up to so many, and have them taken."""
        sent, losses = self._clock.monotonic(), self._scope.in_flight.losses
        crowded = self._dispatcher.crowded()
        if self._partitions is not None:
            # What waits behind a failed head of one partition must not hold up the others.
            self._partitions.rest(crowded)
        receive, wait_s = self._scope.receiver.receive, min(CROWDED_WAIT_S, longest_s) if crowded else longest_s
        deliveries = receive(room, wait_s) if paced is None else paced.read(room, lambda: receive(room, wait_s))
        self.began = True
        if deliveries or self._partitions is None:
            # Of partitions that all rest nobody has asked: the turns of the assignment tell.
            self._health.answered()
        self._tell_vanished()
        if deliveries:
            self.prefetch.weigh(len(deliveries), sum([len(delivery.body) for delivery in deliveries]))
        self._accept(deliveries, sent, losses, take)

    def _tell_vanished(self) -> None:
        if self._vanishing is not None and (gone := self._vanishing.take_vanished()):
            detail = f"{len(gone)} gone from the store before they were settled"
            self._scope.say("vanished", position=gone[0], detail=detail, size=len(gone))

    def _may_probe(self, breaker: Breaker) -> bool:
        """Whether one message may be read although the breaker is not closed."""
        return breaker.probes and not any(held.probe for held in self._scope.in_flight.everything())

    def _accept(self, deliveries: list[Delivery], sent: float, losses: int, take: Taker) -> None:
        """Hand on what was read since ``sent``, when partitions had been lost so many times."""
        table = self._scope.in_flight
        # Nobody knows how much of a long time the leases have been running (this process may have been stopped
        # meanwhile): ask, rather than run what another may have by now.
        in_doubt = self._clock.monotonic() - sent > self._scope.policy.lease_s / 3
        while deliveries:
            if in_doubt:
                losses = table.losses
                sent, deliveries = self._still_ours(deliveries)
            with table.moving:
                # What was leased of a partition before it was lost would be handled beside its next owner.
                in_doubt = table.losses != losses
                if not in_doubt:
                    take(table.take(deliveries, sent))
                    return

    def _offer(self, fresh: Sequence[InFlight]) -> None:
        if not fresh:
            return
        # It may have opened while the read was on its way.
        shut = self._breaker is not None and not self._breaker.closed and not fresh[0].probe
        if self._scope.stop.is_set() or self.paused or shut:
            self._settler.release(self._dispatcher.refuse(fresh))
        elif aside := self._dispatcher.offer(fresh):
            self._settler.set_aside(aside)

    def _still_ours(self, deliveries: list[Delivery]) -> tuple[float, list[Delivery]]:
        """When the store was asked, and those whose leases are still ours; none if it answers nothing until the stop.

        Nothing is read meanwhile: these are leased, and what comes after them must not be handled first.
        """
        while not self._scope.stop.is_set():
            self.moved = sent = self._clock.monotonic()
            try:
                answers = self._scope.receiver.extend([delivery.receipt for delivery in deliveries])
            except Unavailable as error:
                self._health.away(error)
                self._clock.wait(self._scope.stop, self._backoff.next_s())
                continue
            self._health.answered()
            return sent, [delivery for delivery, ours in zip(deliveries, answers, strict=True) if ours]
        return self._clock.monotonic(), []

    def _rest_while_paused(self) -> None:
        if not self._pause_done:
            self._pause_done = True
            self._settler.release(self._dispatcher.withdraw())
        self._resumed.wait(IDLE_S)

    def _room(self) -> int:
        """How many to ask for now; 0 after having waited a while for room in vain."""
        room = self._free()
        if room:
            return room
        limit = self.prefetch.limit()
        self._low_water = max(0, limit - _quarter(limit) - self.prefetch.concurrency)
        self._freed.clear()
        self.hungry = True
        # A worker may have become free before it could see that we are hungry.
        room = self._free()
        if not room:
            self._freed.wait(IDLE_S)
        self.hungry = False
        return room

    def _free(self) -> int:
        limit = self.prefetch.limit()
        room = limit - self._dispatcher.ready() - self._running()
        # Small reads cost as much as large ones: wait until a quarter is free.
        if room < _quarter(limit) or self._settler.waiting >= UNSETTLED_MOST:
            return 0
        return min(room, BATCH)


def _quarter(limit: int) -> int:
    return max(1, limit // 4)
