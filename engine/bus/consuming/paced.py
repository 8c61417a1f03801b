"""How much a reader may lease, where something limits it."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TypeVar

from engine.bus.consuming.scope import ConsumerScope
from engine.core.pacing import Pacing

#: The longest that a reader waits before it asks again, in seconds: a stop ends it, and a limit may have been raised.
LONGEST_S = 0.2
#: The most that is asked for at once.
MOST = 500
_T = TypeVar("_T", bound=Sized)


class PacedReads:
    """For the reader's thread. Nothing is leased while it is held; what was let go and did not come goes back."""

    def __init__(self, scope: ConsumerScope, pacing: Pacing) -> None:
        self._scope = scope
        self._pacing = pacing
        #: What is taken and not used is missing elsewhere meanwhile: who found little asks for little.
        self._asks = 1
        self._took = False

    def ask(self, room: int) -> int:
        """How many of so many may be read; 0 after having waited a while."""
        self._took = self._pacing.holds
        if not self._took:
            return room
        if not (may := self._pacing.take(min(room, self._asks))):
            self._scope.clock.wait(self._scope.stop, min(LONGEST_S, self._pacing.again_s()))
        return may

    def read(self, may: int, receive: Callable[[], _T]) -> _T:
        """What came of so many that may; raises as ``receive`` does."""
        came = 0
        try:
            found = receive()
            came = len(found)
        finally:
            self._tell(may, came)
        return found

    def _tell(self, may: int, came: int) -> None:
        if self._took:
            self._pacing.give_back(may - came)
            self._asks = min(MOST, 2 * may) if came == may else max(1, came)
        elif came:
            self._pacing.take(came)
