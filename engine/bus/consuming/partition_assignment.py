"""A consumer's place among those of an ordered subscription: which partitions it owns, and how they change hands."""

from __future__ import annotations

import logging

from engine.bus.consuming.reader import Reader
from engine.bus.consuming.recovery import Recovery
from engine.bus.consuming.scope import ConsumerScope
from engine.bus.consuming.settler import Settler
from engine.bus.errors import GroupLost
from engine.bus.partitions import PartitionedReceiver, Turn
from engine.core.errors import Unavailable

#: Seconds between two turns: how soon a consumer that joined or left is noticed.
TURN_S = 1.0
#: Seconds between two looks at whether what is given up has been finished.
GIVING_S = 0.05

_log = logging.getLogger(__name__)


class PartitionAssignment:
    """Takes its share, and hands over what is more: reads no more, lets what runs end, then gives up the lease.

    One thread runs it, any may ask.
    """

    def __init__(
        self,
        scope: ConsumerScope,
        receiver: PartitionedReceiver,
        *,
        reader: Reader,
        settler: Settler,
        recovery: Recovery,
    ) -> None:
        self._scope = scope
        self._receiver = receiver
        self._reader = reader
        self._settler = settler
        self._recovery = recovery
        self._backoff = scope.backoff()
        self._owned: dict[int, int] = {}
        #: Partitions on their way out, with the reader's turn in which they were closed.
        self._giving: dict[int, int] = {}

    @property
    def owned(self) -> dict[int, int]:
        """Partition to epoch, as of the last turn."""
        return self._owned

    def run(self) -> None:
        """The assignment thread."""
        scope = self._scope
        while not scope.over.is_set():
            try:
                pause_s = self._step()
                scope.health.answered()
                self._backoff.reset()
            except Unavailable as error:
                scope.health.away(error)
                pause_s = self._backoff.next_s()
            scope.clock.wait(scope.over, pause_s)

    def leave(self) -> None:
        """Give up all of which nothing is in hand; the rest runs out. Called once the thread has ended."""
        held = self._in_hand()
        try:
            self._receiver.turn(sit=False)
            self._receiver.give_up([partition for partition in self._owned if partition not in held])
        except (Unavailable, GroupLost) as error:
            self._log(logging.WARNING, "its partitions could not be given up and run out by themselves: %s", error)
        self._owned = {}

    def _step(self) -> float:
        """One turn; the seconds until the next."""
        try:
            # Also around what is given up, for which the store is asked for a turn as well.
            with self._scope.in_flight.moving:
                turn = self._take_turn()
        except GroupLost as error:
            self._recovery.recreate(error)
            return GIVING_S
        surplus = len(self._owned) - len(self._giving) - turn.share
        if surplus > 0:
            self._begin_giving(surplus)
        return GIVING_S if self._giving else TURN_S

    def _take_turn(self) -> Turn:
        try:
            self._hand_over()
            turn = self._receiver.turn(sit=not self._scope.stop.is_set() and not self._reader.paused)
        except GroupLost:
            self._note({})
            raise
        self._note(turn.owned)
        return turn

    def _hand_over(self) -> None:
        """Give up what nothing is in hand of any more, and what no read can bring any more."""
        if not self._giving:
            return
        held, turns = self._in_hand(), self._reader.turns
        # The turn in which it was closed may still bring something, one that began after it does not.
        done = [p for p, closed in self._giving.items() if turns > closed + 1 and p not in held]
        if len(done) < len(self._giving):
            # A head that failed meanwhile waits for its next attempt: that can be made elsewhere.
            self._withdraw(set(self._giving) - set(done))
        if done:
            self._receiver.give_up(done)
            self._log(logging.INFO, "gave up partitions %s", done)
            for partition in done:
                del self._giving[partition]
                self._owned.pop(partition, None)

    def _note(self, owned: dict[int, int]) -> None:
        lost = {partition for partition, epoch in self._owned.items() if owned.get(partition) != epoch}
        gained = {partition: epoch for partition, epoch in owned.items() if self._owned.get(partition) != epoch}
        self._owned = dict(owned)
        if gained:
            self._log(logging.INFO, "owner of partitions %s (partition: epoch)", gained)
        if lost:
            self._log(logging.WARNING, "lost partitions %s", sorted(lost))
            self._scope.in_flight.losses += 1
            for partition in lost:
                self._giving.pop(partition, None)
            self._lose(lost)

    def _begin_giving(self, number: int) -> None:
        staying = sorted(self._owned.keys() - self._giving.keys(), reverse=True)
        leaving = set(staying[:number])
        for partition in leaving:
            self._receiver.keep_off(partition)
        turns = self._reader.turns
        self._giving.update(dict.fromkeys(leaving, turns))
        self._withdraw(leaving)

    def _in_hand(self) -> set[int]:
        """The partitions of what this consumer has."""
        return {held.delivery.partition for held in self._scope.in_flight.everything()}

    def _withdraw(self, partitions: set[int]) -> None:
        """These are about to be given up: hand back what nobody has begun."""
        self._settler.release(self._scope.dispatcher.withdraw(partitions))

    def _lose(self, partitions: set[int]) -> None:
        """Another may own these by now: nothing of them is begun, and who handles one learns of it."""
        for held in self._scope.dispatcher.withdraw(partitions):
            self._settler.drop(held)
        for held in self._scope.in_flight.everything():
            if held.delivery.partition in partitions:
                held.lose()

    def _log(self, level: int, what: str, which: object) -> None:
        _log.log(level, f"%s of %s: {what}", self._scope.name, self._scope, which)
