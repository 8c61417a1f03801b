"""What flowed over a time range, read at most every few seconds however many people look.

Adding up an hour of fifty busy topics costs the database a tenth of a second and a day more than that, while the answer
changes with every bucket of ten seconds only. A page is therefore given the last answer while a newer one is fetched
behind its back; only the first of a range, and one nobody asked for during a minute, is waited for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.db import DatabaseError

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from hbus_console.database import fresh_connections
from hbus_console.evidence.freshness import Freshness, facts
from hbus_console.traffic import flow
from hbus_console.ui.timerange import TimeRange

#: Facts reach the ledger within this time.
BOOKED_AFTER_MS = 3_000
#: An answer older than this is not shown any more, in multiples of what is fresh.
_TOO_OLD = 1.5
#: Ranges and sights kept at once.
_MOST = 32
_SPARK_POINTS = 30

Key = tuple[tuple[str, ...], str]

_log = structlog.get_logger(__name__)
_clock = SystemClock()


@dataclass(frozen=True)
class History:
    """``whole`` is how many slots of ``series`` (and of ``waiting``) are over and booked."""

    series: flow.Series
    waiting: flow.LagSeries
    topics: dict[str, list[float]]
    whole: int


Read = Callable[[tuple[str, ...], TimeRange], History]


def read(scopes: tuple[str, ...], chosen: TimeRange) -> History:
    """Ask the ledger: five queries."""
    series = flow.series(chosen.start_ms, chosen.end_ms, scopes)
    return History(
        series=series,
        waiting=flow.lag_series(chosen.start_ms, chosen.end_ms, scopes),
        topics=flow.topic_sparks(chosen.start_ms, chosen.end_ms, scopes, _SPARK_POINTS),
        whole=complete_slots(series, chosen.end_ms, facts(_clock.now_ms())),
    )


def complete_slots(series: flow.Series, end_ms: int, booked: Freshness) -> int:
    """How many slots of ``series`` are over and booked; a slot still filling would look like a fall to nothing."""
    whole = len(series.t)
    booked_ms = end_ms if booked.known else min(end_ms, booked.of_ms or 0)
    while whole > 1 and (series.t[whole - 1] + series.step_s) * 1000 > booked_ms - BOOKED_AFTER_MS:
        whole -= 1
    return whole


class Histories:
    """Remembers histories for ``fresh_s`` seconds each (0: never). Thread-safe."""

    def __init__(self, read: Read = read, clock: Clock | None = None, fresh_s: float = 10.0) -> None:
        self._read = read
        self._clock = clock or SystemClock()
        self._fresh_s = fresh_s
        self._known: OrderedDict[Key, tuple[float, History]] = OrderedDict()
        self._under_way: set[Key] = set()
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hbus-history")

    def of(self, scopes: tuple[str, ...], chosen: TimeRange) -> History:
        """The history of ``scopes`` over ``chosen``; of a range that moves on, perhaps as it was some seconds ago."""
        key = (scopes, chosen.query if chosen.query or not chosen.moving else chosen.label)
        now = self._clock.monotonic()
        with self._lock:
            at, known = self._known.get(key, (0.0, None))
            age = now - at
            if known is not None and age < self._fresh_s * _TOO_OLD:
                if age >= self._fresh_s and key not in self._under_way:
                    self._under_way.add(key)
                    self._thread.submit(self._renew, key, scopes, chosen)
                return known
        return self._keep(key, self._read(scopes, chosen))

    def _renew(self, key: Key, scopes: tuple[str, ...], chosen: TimeRange) -> None:
        try:
            with fresh_connections():
                self._keep(key, self._read(scopes, chosen))
        except DatabaseError as error:
            # The old answer serves until it is too old; then whoever asks meets the error.
            _log.warning("history not renewed", error=words_of(error))
        finally:
            with self._lock:
                self._under_way.discard(key)

    def _keep(self, key: Key, found: History) -> History:
        if self._fresh_s:
            with self._lock:
                self._known[key] = (self._clock.monotonic(), found)
                self._known.move_to_end(key)
                while len(self._known) > _MOST:
                    self._known.popitem(last=False)
        return found


_histories = Histories(fresh_s=settings.HISTORY_FRESH_S)


def of(scopes: tuple[str, ...], chosen: TimeRange) -> History:
    """The process's :meth:`Histories.of`."""
    return _histories.of(scopes, chosen)
