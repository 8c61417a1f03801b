"""Exclusive reading of an ordered group: one consumer owns it at a time, under a lease with an epoch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from engine.bus.consuming.health import StoreHealth
from engine.core.clock import Clock
from engine.core.errors import Unavailable
from engine.core.leases import Ownership

#: Seconds between two tries to take over, at most.
TAKEOVER_S = 2.0

_log = logging.getLogger(__name__)


class Owner:
    """Acquires and renews; ``on_lost`` is called once for each loss. One thread runs it, any may ask."""

    def __init__(
        self,
        lease: Ownership,
        *,
        name: str,
        clock: Clock,
        health: StoreHealth,
        stop: threading.Event,
        on_lost: Callable[[], None],
    ) -> None:
        self._lease = lease
        self._name = name
        self._clock = clock
        self._health = health
        self._stop = stop
        self._on_lost = on_lost
        self._owned = False
        self._gained = threading.Event()

    @property
    def held(self) -> bool:
        """Whether we may read now."""
        return self._owned and self._lease.held

    @property
    def epoch(self) -> int:
        """The epoch of our (last) ownership; 0 before the first."""
        return self._lease.epoch

    @property
    def clean(self) -> bool:
        """Whether the owner before us had put everything back."""
        return self._lease.clean

    def wait(self, seconds: float) -> None:
        """Wait (in real time) until we may have become the owner."""
        if self._gained.wait(seconds) and not self.held:
            # It ran out a moment ago, and the owner's thread has not seen it yet.
            self._stop.wait(seconds / 10)

    def run(self) -> None:
        """The owner thread."""
        while not self._stop.is_set():
            self._clock.wait(self._stop, self._step())

    def release(self, *, clean: bool) -> None:
        """Let the next owner in at once if ``clean``; else it waits for the end of our lease and of our deliveries'."""
        if not self._owned or not clean:
            return
        self._owned = False
        try:
            self._lease.release()
        except Unavailable as error:
            _log.warning("%s: the ownership could not be given up and runs out by itself: %s", self._name, error)

    def _step(self) -> float:
        """Acquire or renew; the seconds until the next step."""
        retry_s = min(TAKEOVER_S, self._lease.ttl_s / 3)
        try:
            if not self._owned:
                self._owned = bool(self._lease.acquire())
                if self._owned:
                    self._gained.set()
                    _log.info("%s: owner with epoch %d", self._name, self._lease.epoch)
            elif not self._lease.renew():
                self._lose()
            self._health.answered()
        except Unavailable as error:
            self._health.away(error)
            if self._owned and not self._lease.held:
                self._lose()
            return retry_s / 2
        return self._lease.ttl_s / 3 if self._owned else retry_s

    def _lose(self) -> None:
        self._owned = False
        self._gained.clear()
        _log.warning("%s: the ownership with epoch %d was lost", self._name, self._lease.epoch)
        self._on_lost()
