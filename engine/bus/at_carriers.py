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

    def begin(self, name: str, work: Work) -> bool:
        """Have it done; ``False`` and not begun where the last work at this carrier is not over."""
        carrier = self._carriers.setdefault(name, _Carrier())
        if not carrier.over.is_set():
            return False
        carrier.begin(name, work)
        return True

    def is_over(self, name: str) -> bool:
        """Whether all that was begun at this carrier is."""
        return name not in self._carriers or self._carriers[name].over.is_set()

    def wait(self) -> None:
        """Until all that was begun is over, but for those that hang."""
        deadline = self._clock.monotonic() + PATIENCE_S
        for carrier in self._carriers.values():
            if not carrier.hangs and not self._clock.wait(carrier.over, deadline - self._clock.monotonic()):
                carrier.hangs = True

    def failures(self) -> list[BaseException]:
        """What went wrong in all that is over, each told once."""
        return [error for carrier in self._carriers.values() for error in carrier.failures()]


class _Carrier:
    def __init__(self) -> None:
        #: Set while there is nothing to do.
        self.over = threading.Event()
        self.over.set()
        #: Whether it was waited for in vain, and has done nothing well since.
        self.hangs = False
        self._failed: list[BaseException] = []

    def begin(self, name: str, work: Work) -> None:
        self.over.clear()
        try:
            # Not one for all work: a few microseconds more, and nothing to be ended.
            threading.Thread(target=self._do, args=(work,), name=f"hbus-at-{name or 'default'}", daemon=True).start()
        except BaseException:
            self.over.set()
            raise

    def failures(self) -> list[BaseException]:
        if not self.over.is_set():
            return []
        found, self._failed = self._failed, []
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
