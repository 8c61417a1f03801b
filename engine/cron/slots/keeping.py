"""Keeps the leases of the runs of one process, and learns which of them are to stop: a thread for each of the two."""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.core.clock import Clock, SystemClock
from engine.core.errors import Unavailable
from engine.cron.slots.driving import Act, advance
from engine.cron.slots.running import Held, keep
from engine.cron.slots.steps import CancelledRuns, Steps

#: How long it sleeps where nothing is to be kept, and how often it asks which runs are to stop, in seconds.
IDLE_S, ASK_S = 1.0, 1.0
#: Runs in one question.
MOST_ASKED = 500


_log = logging.getLogger(__name__)


@dataclass(order=True)
class _Kept:
    until: float
    number: int
    run: int = field(compare=False)
    steps: Steps[None] = field(compare=False)
    lost: Callable[[], None] = field(compare=False)
    cancelled: Callable[[], None] = field(compare=False)


class LeaseKeeper:
    """Renews what :meth:`keep` was told of, and says when a lease is lost or a run is to stop. Thread-safe.

    :meth:`tick` is one look at what is due, :meth:`ask` one question for what is to stop; :meth:`start` has a thread do
    each, so that a database which does not answer costs no lease. A store that does not answer holds up the renewals
    behind it by no more than its client's timeout: give it one that is short beside the leases.
    """

    def __init__(self, act: Act, clock: Clock | None = None) -> None:
        self._act = act
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._heap: list[_Kept] = []
        self._kept: dict[int, _Kept] = {}
        self._number = 0
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for name, run in (("leases", self._renew), ("cancellations", self._watch)):
            thread = threading.Thread(target=run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """What is still kept runs out by itself."""
        self._stopped.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()

    def keep(self, held: Held, lost: Callable[[], None], cancelled: Callable[[], None]) -> int:
        """Renew from now on, until :meth:`let_go` of the number that this returns.

        ``lost`` is called once, by the keeping thread, when the lease is no longer to be relied on: the work is to be
        stopped, a quarter of the lease before another may have it. ``cancelled`` is called at least once, by the asking
        thread, when somebody wants the run to stop; its lease is kept meanwhile.
        """
        with self._lock:
            self._number += 1
            kept = _Kept(self._clock.monotonic(), self._number, held.row.id, keep(held), lost, cancelled)
            self._kept[kept.number] = kept
            heapq.heappush(self._heap, kept)
        self._wake.set()
        return kept.number

    def let_go(self, number: int) -> None:
        """No more of it; harmless when it was lost before."""
        with self._lock:
            self._kept.pop(number, None)

    def tick(self) -> float:
        """Go on with all that is due; in how many seconds the next is."""
        while (kept := self._take()) is not None:
            self._go_on(kept)
        with self._lock:
            return self._heap[0].until - self._clock.monotonic() if self._heap else IDLE_S

    def ask(self) -> float:
        """Tell those that are to stop; in how many seconds to ask again. A database that is away tells the next time.

        One that is told is asked for again until it is let go of.
        """
        with self._lock:
            kept = list(self._kept.values())
        for start in range(0, len(kept), MOST_ASKED):
            part = kept[start : start + MOST_ASKED]
            try:
                cancelled: set[int] = self._act(CancelledRuns(tuple(each.run for each in part)))
            except Unavailable:
                break
            except Exception:  # noqa: BLE001 - it is told
                # Whoever asks no more never hears of a cancellation again.
                _log.exception("it could not be asked which runs are to stop")
                break
            for each in part:
                if each.run in cancelled:
                    each.cancelled()
        return ASK_S

    def _renew(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            self._clock.wait(self._wake, min(IDLE_S, self.tick()))

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._clock.wait(self._stopped, self.ask())

    def _lose(self, kept: _Kept) -> None:
        with self._lock:
            is_kept = self._kept.pop(kept.number, None) is not None
        if is_kept:
            kept.lost()

    def _take(self) -> _Kept | None:
        with self._lock:
            while self._heap and self._heap[0].until <= self._clock.monotonic():
                kept = heapq.heappop(self._heap)
                if kept.number in self._kept:
                    return kept
        return None

    def _go_on(self, kept: _Kept) -> None:
        try:
            wait = advance(kept.steps, self._act, self._clock)
        except StopIteration:
            self._lose(kept)
            return
        except Exception:  # noqa: BLE001 - it is told
            # One lease that cannot be kept must not keep the others from being renewed.
            _log.exception("a lease could not be kept", extra={"run": kept.run})
            self._lose(kept)
            return
        kept.until = wait.until
        with self._lock:
            heapq.heappush(self._heap, kept)
