"""How often a message may be tried, and how the store knows of each attempt though those who made it die."""

from __future__ import annotations

from engine.bus.consuming.dispatch import InFlight
from engine.bus.consuming.scope import ConsumerScope
from engine.bus.consuming.settler import Settler, failed_here
from engine.bus.errors import Unrecoverable
from engine.bus.transport import Settlement, Verdict
from engine.core.errors import Unavailable

#: Seconds until an attempt is announced again to a store that did not answer.
AGAIN_S = 0.5


class Attempts:
    """Of one subscription. Thread-safe.

    No message is tried more often than its policy says, however its consumers die, but for one of a single attempt:
    nobody knows whether that was made before a consumer vanished, so it gets a second.

    Without order an attempt is counted when its consumer has vanished, whether the handler had begun or the message
    only waited there. In order, what fails is tried again in the same process, and much is in hand that waits behind
    others. So there each attempt after the first is announced to the store, which counts it whatever becomes of this
    process, and counts nothing for what only waited but the first.
    """

    def __init__(self, scope: ConsumerScope, settler: Settler) -> None:
        self._scope = scope
        self._settler = settler
        self.ordered = scope.policy.ordering == "key"
        #: The number of the last attempt that may be made.
        self.last = max(2, scope.policy.retry.max_attempts)

    def used_up(self, held: InFlight) -> Unrecoverable:
        """Why an attempt after the last is not made."""
        made = "made" if self.ordered else "had it for"
        return Unrecoverable(f"the consumer that {made} attempt {held.attempt - 1} vanished, and it was the last")

    def announce(self, held: InFlight) -> bool | None:
        """In order, have an attempt after the first counted before it is made. ``False`` when the lease is lost.

        ``None`` when the store does not answer, and the dispatcher keeps it until it is asked again.
        """
        settlement = Settlement(held.delivery.receipt, Verdict.BEGIN, attempt=failed_here(held), number=held.attempt)
        try:
            (counted,) = self._scope.receiver.settle([settlement])
        except Unavailable as error:
            self._scope.health.away(error)
            # It may be counted already; asked again, it is counted once.
            return None if self._scope.dispatcher.keep(held, AGAIN_S) else False
        if not counted:
            self._settler.say(held, "lease_lost", "the lease was lost before its turn")
        return counted
