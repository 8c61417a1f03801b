"""A consumer's place among those of an ordered subscription: which partitions it owns, and how they change hands."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from engine.bus.consuming.health import Backoff, StoreHealth
from engine.bus.consuming.recovery import Recovery
from engine.bus.errors import GroupLost
from engine.bus.partitions import PartitionedReceiver
from engine.core.clock import Clock
from engine.core.errors import Unavailable

#: Seconds between two turns: how soon a consumer that joined or left is noticed.
TURN_S = 1.0
#: Seconds between two looks at whether what is given up has been finished.
GIVING_S = 0.05

_log = logging.getLogger(__name__)


class PartitionAssignment:
    """Takes its share, and hands over what is more: reads no more, lets what runs end, then gives up the lease.

    One thread runs it, any may ask. ``in_hand`` tells of which partitions something is held, ``turns`` how often the
    reader has come round. ``on_leaving`` is told of partitions that are about to be given up, ``on_lost`` of those
    that another may own by now.
    """

    def __init__(
        self,
        receiver: PartitionedReceiver,
        *,
        name: str,
        wanted: Callable[[], bool],
        in_hand: Callable[[], set[int]],
        turns: Callable[[], int],
        on_leaving: Callable[[set[int]], None],
        on_lost: Callable[[set[int]], None],
        recovery: Recovery,
        clock: Clock,
        health: StoreHealth,
        backoff: Backoff,
        stop: threading.Event,
    ) -> None:
        self._receiver = receiver
        self._name = name
        self._wanted = wanted
        self._in_hand = in_hand
        self._turns = turns
        self._on_leaving = on_leaving
        self._on_lost = on_lost
        self._recovery = recovery
        self._clock = clock
        self._health = health
        self._backoff = backoff
        self._stop = stop
        self._owned: dict[int, int] = {}
        #: Partitions on their way out, with the reader's turn in which they were closed.
        self._giving: dict[int, int] = {}

    @property
    def owned(self) -> dict[int, int]:
        """Partition to epoch, as of the last turn."""
        return self._owned

    def run(self) -> None:
        """The assignment thread."""
        while not self._stop.is_set():
            try:
                pause_s = self._step()
                self._health.answered()
                self._backoff.reset()
            except Unavailable as error:
                self._health.away(error)
                pause_s = self._backoff.next_s()
            self._clock.wait(self._stop, pause_s)

    def leave(self) -> None:
        """Give up all of which nothing is in hand; the rest runs out. Called once the thread has ended."""
        held = self._in_hand()
        try:
            self._receiver.turn(sit=False)
            self._receiver.give_up([partition for partition in self._owned if partition not in held])
        except (Unavailable, GroupLost) as error:
            _log.warning("%s: its partitions could not be given up and run out by themselves: %s", self._name, error)
        self._owned = {}

    def _step(self) -> float:
        """One turn; the seconds until the next."""
        try:
            self._hand_over()
            turn = self._receiver.turn(sit=self._wanted())
        except GroupLost as error:
            self._note({})
            self._recovery.recreate(error)
            return GIVING_S
        self._note(turn.owned)
        surplus = len(self._owned) - len(self._giving) - turn.share
        if surplus > 0:
            self._begin_giving(surplus)
        return GIVING_S if self._giving else TURN_S

    def _hand_over(self) -> None:
        """Give up what nothing is in hand of any more, and what no read can bring any more."""
        if not self._giving:
            return
        held, turns = self._in_hand(), self._turns()
        # The turn in which it was closed may still bring something, one that began after it does not.
        done = [p for p, closed in self._giving.items() if turns > closed + 1 and p not in held]
        if len(done) < len(self._giving):
            # A head that failed meanwhile waits for its next attempt: that can be made elsewhere.
            self._on_leaving(set(self._giving) - set(done))
        if done:
            self._receiver.give_up(done)
            _log.info("%s: gave up partitions %s", self._name, done)
            for partition in done:
                del self._giving[partition]
                self._owned.pop(partition, None)

    def _note(self, owned: dict[int, int]) -> None:
        lost = {partition for partition, epoch in self._owned.items() if owned.get(partition) != epoch}
        gained = {partition: epoch for partition, epoch in owned.items() if self._owned.get(partition) != epoch}
        self._owned = dict(owned)
        if gained:
            _log.info("%s: owner of partitions %s (partition: epoch)", self._name, gained)
        if lost:
            _log.warning("%s: lost partitions %s", self._name, sorted(lost))
            for partition in lost:
                self._giving.pop(partition, None)
            self._on_lost(lost)

    def _begin_giving(self, number: int) -> None:
        staying = sorted(self._owned.keys() - self._giving.keys(), reverse=True)
        leaving = set(staying[:number])
        for partition in leaving:
            self._receiver.keep_off(partition)
        turns = self._turns()
        self._giving.update(dict.fromkeys(leaving, turns))
        self._on_leaving(leaving)
