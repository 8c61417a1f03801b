"""Those who wait for tokens, in threads and in event loops, and what wakes them all when their limiter is closed."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from engine.core.clock import Clock


class Gate:
    """Closed once, for ever: whoever waits at it is told. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._sleeping: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            sleeping = list(self._sleeping)
        for loop, event in sleeping:
            # A loop that has ended has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    def sleep(self, seconds: float) -> bool:
        """Wait so long by the clock; whether the gate is closed, which ends it at once."""
        return self._clock.wait(self._closed, min(seconds, threading.TIMEOUT_MAX))

    async def sleep_async(self, seconds: float) -> bool:
        """As :meth:`sleep`, by the event loop's own clock."""
        closing = asyncio.Event()
        entry = (asyncio.get_running_loop(), closing)
        with self._lock:
            self._sleeping.add(entry)
        try:
            if self.closed:
                return True
            with suppress(TimeoutError):
                await asyncio.wait_for(closing.wait(), seconds)
            return self.closed
        finally:
            with self._lock:
                self._sleeping.discard(entry)
