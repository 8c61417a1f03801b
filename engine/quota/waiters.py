"""Those who wait until a limiter has tokens for them, first come, first served."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto


class Fate(Enum):
    WAITING = auto()
    SERVED = auto()
    #: Waited for the control plane's answer alone, and there was nothing for it.
    REFUSED = auto()
    CLOSED = auto()


class TokenWaiter:
    """One who waits. Its limiter's lock guards :attr:`fate`; ``wake`` is called once, when that is known."""

    __slots__ = ("ahead", "fate", "got", "n", "patient", "wake")

    def __init__(self, n: int, patient: bool, wake: Callable[[], None]) -> None:
        self.n = n
        #: Whether it goes on waiting when an answer brings nothing.
        self.patient = patient
        self.wake = wake
        #: What it has collected, and what is promised to those who came before it.
        self.got = self.ahead = 0
        self.fate = Fate.WAITING

    def decide(self, fate: Fate) -> None:
        self.fate = fate
        self.wake()


class ThreadWaiter(TokenWaiter):
    __slots__ = ("event",)

    def __init__(self, n: int, patient: bool) -> None:
        self.event = threading.Event()
        super().__init__(n, patient, self.event.set)


class LoopWaiter(TokenWaiter):
    """For the running event loop."""

    __slots__ = ("_loop", "event")

    def __init__(self, n: int, patient: bool) -> None:
        self.event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        super().__init__(n, patient, self._wake)

    def _wake(self) -> None:
        # A loop that has ended has nobody left who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.event.set)
