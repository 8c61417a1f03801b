"""The way of facts out of a process: queued off the hot path, bounded, and never lost in silence."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import text_of
from engine.core.facts import BATCH_LIMIT, CoreFields, FactBatch, FactSink, merged

#: How many facts may wait for the sink before new ones are dropped and counted.
QUEUE_LIMIT = 100_000
#: Seconds a fact may wait for company before it is handed over.
LINGER_S = 0.05


class FactLog:
    """Queues facts and hands them to ``sink`` from its own daemon thread, up to
    :data:`~engine.core.facts.BATCH_LIMIT` of them at once. Thread-safe.

    What does not fit into the queue is counted in :attr:`dropped` and told by a ``facts_dropped`` fact. A sink that
    fails is offered the same again until it succeeds or the log is closed; meanwhile the queue fills and then counts
    what it drops. ``close`` flushes for at most ``drain_s`` seconds; what is emitted later is counted as dropped. After
    a fork the child starts with an empty queue and a thread of its own.
    """

    def __init__(
        self,
        sink: FactSink,
        *,
        clock: Clock | None = None,
        limit: int = QUEUE_LIMIT,
        linger_s: float = LINGER_S,
        retry_s: float = 1.0,
    ) -> None:
        self._sink = sink
        self._clock = clock or SystemClock()
        self._limit = limit
        self._linger_s = linger_s
        self._retry_s = retry_s
        self._dropped_total = 0
        self._last_error = ""
        self._begin()
        myself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: FactLog._forget_parent(myself))

    def _begin(self) -> None:
        #: Guards the queue and what is counted of it.
        self._lock = threading.Lock()
        self._queue: deque[FactBatch] = deque()
        self._waiting = 0
        self._dropped_unsaid = 0
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()

    @staticmethod
    def _forget_parent(log: weakref.ref[FactLog]) -> None:
        # Threads do not survive a fork, and what waited will be sent by the parent.
        if (here := log()) is not None and not here._stop.is_set():
            here._begin()

    @property
    def dropped(self) -> int:
        """How many facts were dropped since the start."""
        return self._dropped_total

    @property
    def waiting(self) -> int:
        """How many facts wait for the sink."""
        return self._waiting

    @property
    def last_error(self) -> str:
        """The sink's last failure, empty while it works."""
        return self._last_error

    def emit(self, facts: Sequence[FactBatch]) -> None:
        if self._thread is None:
            self._start()
        with self._lock:
            for batch in facts:
                room = 0 if self._stop.is_set() else self._limit - self._waiting
                if room < batch.count:
                    kept = max(0, room)
                    self._dropped_total += batch.count - kept
                    self._dropped_unsaid += batch.count - kept
                    if not kept:
                        continue
                    batch = batch.part(0, kept)  # noqa: PLW2901 - the rest of it is gone
                self._queue.append(batch)
                self._waiting += batch.count
            full = self._waiting >= BATCH_LIMIT
        if full:
            self._wake.set()

    def close(self, drain_s: float = 5.0) -> None:
        """Stop the thread after flushing what waits, for at most ``drain_s`` seconds. Safe to call twice."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(drain_s)
        with self._lock:
            self._queue.clear()
            self._dropped_total += self._waiting
            self._waiting = 0

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="hbus-facts", daemon=True)
                self._thread.start()

    def _take(self) -> list[FactBatch]:
        taken: list[FactBatch] = []
        with self._lock:
            queue, room = self._queue, BATCH_LIMIT
            while queue and room:
                batch = queue.popleft()
                if batch.count > room:
                    queue.appendleft(batch.part(room, batch.count))
                    batch = batch.part(0, room)
                taken.append(batch)
                room -= batch.count
            self._waiting -= BATCH_LIMIT - room
            lost, self._dropped_unsaid = self._dropped_unsaid, 0
        if lost:
            said = f"{lost} facts dropped"
            taken.append(FactBatch("facts_dropped", self._clock.now_ms(), detail=said, fields=CoreFields(lost)))
        return merged(taken)

    def _run(self) -> None:
        while True:
            if self._waiting < BATCH_LIMIT and not self._stop.is_set():
                self._wake.wait(self._linger_s)
                self._wake.clear()
            batches = self._take()
            while batches:
                try:
                    self._sink.write(batches)
                    self._last_error = ""
                    batches = []
                except Exception as error:  # noqa: BLE001
                    # A sink is foreign code: whatever it raises is kept for status and the same is offered again.
                    self._last_error = text_of(error)
                    if self._stop.wait(self._retry_s):
                        with self._lock:
                            self._dropped_total += sum(batch.count for batch in batches)
                        return
            if self._stop.is_set() and not self._queue:
                return
