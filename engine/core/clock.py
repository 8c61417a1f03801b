"""Time as an argument: every component takes a clock, and tests move it."""

from __future__ import annotations

import random
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

#: The least share of a pause that is waited.
JITTER_FLOOR = 0.5


def jitter(rng: random.Random) -> float:
    """The share of a pause to wait, from :data:`JITTER_FLOOR` to 1: who failed at one time comes back at many."""
    return JITTER_FLOOR + (1 - JITTER_FLOOR) * rng.random()


class Clock(Protocol):
    """Where a component reads the time. Implementations are thread-safe."""

    def now_ms(self) -> int:
        """Wall time: milliseconds since the Unix epoch, UTC. May step."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run back; only differences have a meaning."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until ``event`` is set or ``seconds`` of this clock have passed; return ``event.is_set()``."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    #: Not a method that calls it: every message asks several times.
    monotonic = staticmethod(time.monotonic)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(max(0.0, seconds))


class ManualClock:
    """A clock that stands still until a test moves it with :meth:`advance`.

    ``wait`` returns as soon as the event is set or the clock has been advanced far enough: no test sleeps.
    """

    def __init__(self, start_ms: int = 1_790_000_000_000) -> None:
        self._changed = threading.Condition()
        self._now_ms = start_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        with self._changed:
            return self._now_ms

    def monotonic(self) -> float:
        with self._changed:
            return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both readings forward and wake whoever waits."""
        if seconds < 0:
            raise ValueError("advance() moves forward; use step_wall() for a clock step")
        with self._changed:
            self._now_ms += round(seconds * 1000)
            self._monotonic += seconds
            self._changed.notify_all()

    def step_wall(self, seconds: float) -> None:
        """Step the wall clock alone, forward or back, as NTP or an administrator would."""
        with self._changed:
            self._now_ms += round(seconds * 1000)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        deadline = self.monotonic() + seconds
        # The real-time slice only bounds how late a set event is noticed; no test outcome depends on it.
        poll_s = 0.002
        while not event.is_set():
            with self._changed:
                if self._monotonic >= deadline:
                    break
                self._changed.wait(poll_s)
        return event.is_set()


#: The moments that every time zone can say: from the year 1 to 9999, a day short at either end.
EARLIEST_MS, LATEST_MS = -62_135_510_400_000, 253_402_214_399_999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The seconds that RFC 3339 can say.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799


def to_datetime(epoch_ms: int) -> datetime:
    """The UTC datetime of ``epoch_ms``. Raises ``ValueError``, ``OverflowError`` or ``OSError`` when there is none."""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC)


# Every message is stamped; formatting is dear, and messages of one batch share their stamp.
@lru_cache(maxsize=1024)
def to_rfc3339(epoch_ms: int) -> str:
    """``epoch_ms`` as RFC 3339 in UTC with milliseconds, the form CloudEvents asks for.

    Never raises: a moment before the year 1 or after 9999 is written as the nearest second that can be.
    """
    return f"{_to_the_second(min(max(epoch_ms // 1000, _FIRST_S), _LAST_S))}.{epoch_ms % 1000:03d}Z"


@lru_cache(maxsize=1024)
def _to_the_second(epoch_s: int) -> str:
    # Not strftime: it writes the year 33 with two digits.
    return datetime.fromtimestamp(epoch_s, tz=UTC).replace(tzinfo=None).isoformat()


def from_rfc3339(text: str) -> int:
    """Epoch milliseconds of an RFC 3339 instant; raises ``ValueError`` when it has no offset, is malformed, or lies
    beyond the years 1 to 9999 in UTC.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no UTC offset; write 2026-11-21T08:00:00Z")
    epoch_ms = round(moment.timestamp() * 1000)
    if (moment - _EPOCH) // timedelta(seconds=1) == _LAST_S:
        # What some write for "never" lies within the last half millisecond there is.
        epoch_ms = min(epoch_ms, _LAST_S * 1000 + 999)
    if not _FIRST_S * 1000 <= epoch_ms < (_LAST_S + 1) * 1000:
        raise ValueError(f"{text!r} is before the year 1 or after 9999 in UTC")
    return epoch_ms
