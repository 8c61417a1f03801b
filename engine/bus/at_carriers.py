"""Work at several carriers, at each on a thread of its own: one that hangs holds up none of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from engine.core.clock import Clock

#: How long a carrier that hangs is waited for, in seconds, before others go on without it; once, for as long as it
#: hangs.
PATIENCE_S = 1.0

#: Gives back what went wrong.
Work = Callable[[], Sequence[BaseException]]


class AtCarriers:
    """Used from one thread. What is begun and not done when that ends is lost with its process: it must be such that
    whoever comes next may do it again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._carriers: dict[str, _Carrier] = {}

    def is_free(self, name: str) -> bool:
        """Whether all that was begun at this carrier is over, and was taken."""
        return name not in self._carriers or not self._carriers[name].begun

    def begin(self, name: str, work: Work) -> bool:
        """Have it done; ``False`` and not begun where the carrier is not free: so nobody can begin what comes next
        before he has seen what became of the last."""
        carrier = self._carriers.setdefault(name, _Carrier())
        if carrier.begun:
            return False
        carrier.begin(name, work)
        return True

    def over(self) -> list[str]:
        """The carriers at which what was begun is over, and was not taken."""
        return [name for name, carrier in self._carriers.items() if carrier.begun and carrier.over.is_set()]

    def take(self, name: str) -> Sequence[BaseException]:
        """What went wrong at a carrier where all is over; from here on it is free."""
        return self._carriers[name].take()

    def wait(self) -> None:
        """Until all that was begun is over, but for those that hang."""
        deadline = self._clock.monotonic() + PATIENCE_S
        for carrier in self._carriers.values():
            if not carrier.hangs and not self._clock.wait(carrier.over, deadline - self._clock.monotonic()):
                carrier.hangs = True


class _Carrier:
    def __init__(self) -> None:
        #: Set while there is nothing to do.
        self.over = threading.Event()
        self.over.set()
        #: Whether it was waited for in vain, and has done nothing well since.
        self.hangs = False
        #: Whether something was, and its end was not taken. Of the thread that begins it alone.
        self.begun = False
        self._failed: Sequence[BaseException] = ()

    def begin(self, name: str, work: Work) -> None:
        self.over.clear()
        try:
            # Not one for all work: a few microseconds more, and nothing to be ended.
            threading.Thread(target=self._do, args=(work,), name=f"hbus-at-{name or 'default'}", daemon=True).start()
        except BaseException:
            self.over.set()
            raise
        self.begun = True

    def take(self) -> Sequence[BaseException]:
        found, self._failed, self.begun = self._failed, (), False
        return found

    def _do(self, work: Work) -> None:
        try:
            self._failed = list(work())
        except BaseException as error:  # noqa: BLE001
            # It is raised where the work was asked for.
            self._failed = [error]
        if not self._failed:
            self.hangs = False
        self.over.set()
