"""Which message an open breaker lets through to be tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.bus.consuming.dispatch import MOST_BYTES, InFlight, Prefetch
from engine.bus.consuming.scope import ConsumerScope
from engine.bus.consuming.settler import Settler
from engine.bus.errors import GroupLost
from engine.core.errors import Unavailable

#: The most deliveries asked for at once.
BATCH = 500
#: How many messages that failed before are passed over to find one to try that has not.
LOOKED_MOST = 5_000
#: Seconds the first read waits for a message.
WAIT_S = 0.5

#: Is given what a read has brought.
Taker = Callable[[list[InFlight]], None]


class Probing:
    """Tries one message that has not failed before, if there is any that order lets pass; else one that has.

    What is due again comes first, and may be nothing but messages that fail however well the handler works. For the
    reader's thread; ``read`` and ``offer`` are the reader's.
    """

    def __init__(
        self,
        scope: ConsumerScope,
        prefetch: Prefetch,
        settler: Settler,
        *,
        read: Callable[[int, float, Taker], None],
        offer: Callable[[Sequence[InFlight]], None],
    ) -> None:
        self._in_flight = scope.in_flight
        self._dispatcher = scope.dispatcher
        self._prefetch = prefetch
        self._settler = settler
        self._read = read
        self._offer = offer

    def one(self) -> Sequence[InFlight]:
        """Offer one, which is returned, and hand back what was leased to find it."""
        looked = self._looked()
        with self._in_flight.moving:
            firsts = self._dispatcher.firsts([held for held in looked if not held.lost])
            chosen = _untried(firsts) or firsts[:1]
            for held in chosen:
                held.probe = True
            self._offer(chosen)
            # After it: before it, those of its key would take it along.
            rest = [held for held in looked if not held.probe]
            self._settler.release(self._dispatcher.refuse(rest), told=False)
        return chosen

    def _looked(self) -> list[InFlight]:
        """What has to be leased to find one, in order; it is in the table."""
        looked: list[InFlight] = []
        while True:
            before = len(looked)
            try:
                self._read(min(BATCH, self._prefetch.fitting()), 0 if looked else WAIT_S, looked.extend)
            except (GroupLost, Unavailable):
                # What came before is leased; the trouble is met again.
                if not looked:
                    raise
            if len(looked) == before or _untried(self._dispatcher.firsts(looked)):
                return looked
            if len(looked) >= LOOKED_MOST or sum([len(held.delivery.body) for held in looked]) >= MOST_BYTES:
                return looked


def _untried(deliveries: Sequence[InFlight]) -> Sequence[InFlight]:
    """The first of them that has not failed before."""
    return [held for held in deliveries if held.attempt == 1][:1]
