"""Facts: the only way from the engine to screens, metrics, logs, database and lake.

An engine calls :meth:`FactLog.emit` on its hot path; a background thread hands batches to a sink. The queue is
bounded: what does not fit is counted in :attr:`FactLog.dropped` and reported by a ``facts_dropped`` fact, never
lost in silence.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import msgspec

from engine.core.clock import Clock, SystemClock

#: How many facts may wait for the sink before new ones are dropped and counted.
QUEUE_LIMIT = 100_000
#: The largest batch handed to a sink at once.
BATCH_LIMIT = 2_000
#: Seconds a fact may wait for company before its batch is sent.
LINGER_S = 0.05


class Fact(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One line of evidence. Fields that do not apply to a kind keep their defaults.

    ``kind`` is one of :data:`KINDS`. ``at_ms`` is the wall time of the event; ``duration_us`` how long the handler
    (or the append) took; ``detail`` is a short human sentence or an error text, already free of secrets.
    """

    kind: str
    at_ms: int
    topic: str = ""
    subscription: str = ""
    message_id: str = ""
    key: str = ""
    correlation_id: str = ""
    causation_id: str = ""
    trace_id: str = ""
    type: str = ""
    source: str = ""
    position: str = ""
    attempt: int = 0
    duration_us: int = 0
    size: int = 0
    due_ms: int = 0
    node: str = ""
    error: str = ""
    fingerprint: str = ""
    detail: str = ""


#: Every kind of fact with what it says.
KINDS: dict[str, str] = {
    "published": "a message was appended to its topic",
    "publish_failed": "the store did not take messages, or not surely; size says how many of one call",
    "deduplicated": "a publish repeated an idempotency key, or an inbox stopped a second delivery",
    "delayed": "a message was stored until its due time",
    "settled": "a handler finished and its delivery was acknowledged",
    "retried": "an attempt failed and another is scheduled",
    "dead": "a message ran out of attempts, or failed for good",
    "expired": "a message outlived its expiry before it could be handled",
    "parked": "a message was set aside with its key, whose head failed for good",
    "unparked": "a person let the messages of a parked key come again",
    "skipped": "a person settled the head of a parked key without its being handled",
    "released": "a delivery was handed back unhandled",
    "lease_lost": "a consumer found that a delivery it held was given to another",
    "redriven": "a dead letter was published again as a new message",
    "replayed": "a message was published again by a replay; detail names the copy",
    "discarded": "a person discarded a dead letter",
    "breaker_opened": "failures look like an outage, or a person said so: nothing is delivered for a while",
    "breaker_probing": "the breaker lets one message through, to be tried",
    "breaker_closed": "deliveries flow again",
    "group_lost": "a subscription's state had vanished from the store and was made anew at its last known position",
    "retention_held": "retention wanted to trim what a subscription has not settled, and did not",
    "trimmed": "settled messages were removed by retention",
    "store_lost": "the store could not be reached",
    "store_back": "the store answers again",
    "facts_dropped": "evidence was dropped because the queue was full; detail says how many",
}


class FactSink(Protocol):
    """Where batches of facts go. Called from one thread; may block; an exception makes the batch be tried again."""

    def write(self, facts: Sequence[Fact]) -> None: ...


class Emitter(Protocol):
    """The engine's side: never blocks, never raises."""

    def emit(self, facts: Sequence[Fact]) -> None: ...


class NullFacts:
    """Facts off."""

    def emit(self, facts: Sequence[Fact]) -> None:
        return


class MemoryFacts:
    """Keeps every fact in a list, for tests."""

    def __init__(self) -> None:
        self.seen: list[Fact] = []

    def emit(self, facts: Sequence[Fact]) -> None:
        self.seen.extend(facts)

    def kinds(self) -> list[str]:
        return [fact.kind for fact in self.seen]


class FactLog:
    """Queues facts and hands them to ``sink`` in batches from its own daemon thread. Thread-safe.

    A sink that fails is tried again with the same batch until it succeeds or the log is closed; meanwhile the queue
    fills and then counts what it drops. ``close`` flushes for at most ``drain_s`` seconds; what is emitted later is
    counted as dropped. After a fork the child starts with an empty queue and a thread of its own.
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
        self._queue: deque[Fact] = deque()
        self._drop_lock = threading.Lock()
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
        return len(self._queue)

    @property
    def last_error(self) -> str:
        """The sink's last failure, empty while it works."""
        return self._last_error

    def emit(self, facts: Sequence[Fact]) -> None:
        if self._thread is None:
            self._start()
        room = 0 if self._stop.is_set() else self._limit - len(self._queue)
        if room < len(facts):
            kept = facts[: max(0, room)]
            with self._drop_lock:
                self._dropped_total += len(facts) - len(kept)
                self._dropped_unsaid += len(facts) - len(kept)
            facts = kept
        self._queue.extend(facts)
        if len(self._queue) >= BATCH_LIMIT:
            self._wake.set()

    def close(self, drain_s: float = 5.0) -> None:
        """Stop the thread after flushing what waits, for at most ``drain_s`` seconds. Safe to call twice."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(drain_s)
        if left := len(self._queue):
            self._queue.clear()
            with self._drop_lock:
                self._dropped_total += left

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="hbus-facts", daemon=True)
                self._thread.start()

    def _take(self) -> list[Fact]:
        queue = self._queue
        batch = [queue.popleft() for _ in range(min(BATCH_LIMIT, len(queue)))]
        with self._drop_lock:
            lost, self._dropped_unsaid = self._dropped_unsaid, 0
        if lost:
            batch.append(Fact("facts_dropped", self._clock.now_ms(), size=lost, detail=f"{lost} facts dropped"))
        return batch

    def _run(self) -> None:
        while True:
            if len(self._queue) < BATCH_LIMIT and not self._stop.is_set():
                self._wake.wait(self._linger_s)
                self._wake.clear()
            batch = self._take()
            while batch:
                try:
                    self._sink.write(batch)
                    self._last_error = ""
                    batch = []
                except Exception as error:  # noqa: BLE001
                    # A sink is foreign code: whatever it raises is kept for status and the batch is tried again.
                    self._last_error = f"{type(error).__name__}: {error}"
                    if self._stop.wait(self._retry_s):
                        with self._drop_lock:
                            self._dropped_total += len(batch)
                        return
            if self._stop.is_set() and not self._queue:
                return
